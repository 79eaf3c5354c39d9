import dnsPacket, { type Answer, type Packet } from 'dns-packet'
import { nameServerRules } from '../../policy/domains/name-server-rules.ts'
import { isHostnameWithin } from '../../policy/domains/names.ts'

export interface Zone {
  /** In lower case. */
  name: string
  /** The texts of the TXT records of a name in the zone, in lower case; none = it has none. */
  texts(name: string): Promise<readonly string[]>
}

const headerBytes = 12
const codes = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NOTIMP: 4, REFUSED: 5 } as const
const [responseBit, opcodeMask, recursionDesired] = [0x8000, 0x7800, 0x0100] as const
/** The library decodes bytes that are no UTF-8 into longer ones, so that not every name could be written back. */
const plainName = /^[\w-]{1,63}(\.[\w-]{1,63})*$/

/** A question in bounds. `max`: bytes that an answer may have. */
interface Question {
  packet: Packet
  name: string
  type: string
  max: number
  hasOptions: boolean
}

/**
 * The answer to a message; null for what gets none. The server is an authority for one zone and no resolver: it refuses every other name,
 * and in its zone it has the texts, and of other types nothing. That it answers at all is what resolvers want that ask for a name label by
 * label.
 */
export async function answerOf(message: Buffer, zone: Zone, over: 'udp' | 'tcp'): Promise<Buffer | null> {
  if (message.length < headerBytes || message.length > nameServerRules.questionBytes) return null
  const flags = message.readUInt16BE(2)
  // An answer to an answer could go on for ever.
  if (flags & responseBit) return null
  if (flags & opcodeMask) return bare(message, codes.NOTIMP)
  const question = questionOf(message, over)
  if (question === null) return bare(message, codes.FORMERR)
  const asked = question.name.toLowerCase()
  if (!isHostnameWithin(asked, zone.name)) return written(question, codes.REFUSED, [], [])
  try {
    const texts = question.type === 'TXT' ? await zone.texts(asked) : []
    const answers = texts.map(text => record(question.name, 'TXT', text))
    if (question.type === 'SOA' && asked === zone.name) answers.push(startOf(zone.name))
    return written(question, codes.NOERROR, answers, answers.length > 0 ? [] : [startOf(zone.name)])
  } catch {
    return written(question, codes.SERVFAIL, [], []) // the caller of `texts` logs why
  }
}

/** Counts are compared before anything is decoded: a packet may claim 65,535 records. */
function questionOf(message: Buffer, over: 'udp' | 'tcp'): Question | null {
  const [questions, answers, authorities, additionals] = [4, 6, 8, 10].map(at => message.readUInt16BE(at))
  if (questions !== 1 || answers !== 0 || authorities !== 0 || additionals! > 1) return null
  try {
    const packet = dnsPacket.decode(message)
    const [question] = packet.questions!
    const option = packet.additionals?.find(({ type }) => type === 'OPT') as { udpPayloadSize: number } | undefined
    if (question?.class !== 'IN' || !plainName.test(question.name)) return null
    const { datagramBytes } = nameServerRules
    const taken = Math.max(512, Math.min(datagramBytes, option?.udpPayloadSize ?? 0))
    const max = over === 'tcp' ? 65_535 : taken
    return { packet, name: question.name, type: question.type, max, hasOptions: option !== undefined }
  } catch {
    return null // malformed
  }
}

/** A header without a question, for messages whose question cannot be repeated. */
function bare(message: Buffer, code: number): Buffer {
  const header = Buffer.alloc(headerBytes)
  message.copy(header, 0, 0, 2)
  header.writeUInt16BE(responseBit | (message.readUInt16BE(2) & (opcodeMask | recursionDesired)) | code, 2)
  return header
}

function written(
  { packet, max, hasOptions }: Question,
  code: number,
  answers: Answer[],
  authorities: Answer[],
): Buffer {
  const isOurs = code === codes.NOERROR
  const flags = code | (isOurs ? dnsPacket.AUTHORITATIVE_ANSWER : 0) | ((packet.flags ?? 0) & recursionDesired)
  const option = {
    type: 'OPT',
    name: '.',
    udpPayloadSize: nameServerRules.datagramBytes,
    flags: 0,
    options: [],
  } as const
  const reply = {
    ...({ id: packet.id, type: 'response', questions: packet.questions } as const),
    additionals: hasOptions ? [option as unknown as Answer] : [],
  }
  const whole = dnsPacket.encode({ ...reply, flags, answers, authorities } as Packet)
  if (whole.length <= max) return whole
  return dnsPacket.encode({ ...reply, flags: flags | dnsPacket.TRUNCATED_RESPONSE } as Packet)
}

const record = (name: string, type: string, data: unknown): Answer =>
  ({ name, type, class: 'IN', ttl: nameServerRules.ttlSeconds, data }) as Answer

/** The record that marks a zone. Its last number is how long resolvers remember that something is missing. */
const startOf = (zone: string): Answer =>
  record(zone, 'SOA', {
    ...{ mname: zone, rname: `hostmaster.${zone}`, serial: 1, refresh: 3600, retry: 600, expire: 86_400 },
    minimum: nameServerRules.ttlSeconds,
  })
