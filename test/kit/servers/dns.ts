import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import dnsPacket, { type Answer, type Packet } from 'dns-packet'

/** Values as text; a TXT record may come in several pieces; a CAA record is `<flags> <tag> <value>`. */
export type Value = string | string[]
type Kind = 'A' | 'AAAA' | 'CNAME' | 'TXT' | 'CAA' | 'NS'

/** What the server does with questions about a name instead of answering; `garbage` is no packet. */
export type Misbehaviour = 'SERVFAIL' | 'REFUSED' | 'silence' | 'garbage'

const codes = { NOERROR: 0, SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const
const classicBytes = 512
const maxChain = 16

/**
 * A resolver whose zones a test writes: UDP and TCP on one loopback port. Like a real one it follows CNAME records, tells a missing name
 * from a missing type, and truncates what does not fit into a datagram.
 */
export class TestDns {
  /** `address:port` */
  address = ''
  port = 0
  readonly questions: { name: string; type: string; over: 'udp' | 'tcp' }[] = []
  /** Hears when a question arrives (1), and when it is answered 20 ms later (-1). */
  onQuestion: ((change: 1 | -1) => void) | undefined
  readonly #records = new Map<string, Map<Kind, Value[]>>()
  readonly #misbehaviours = new Map<string, Misbehaviour>()
  readonly #delegations = new Map<string, number>()
  readonly #sockets = new Set<Socket>()
  #udp: UdpSocket | undefined
  #tcp: Server | undefined

  static async start(): Promise<TestDns> {
    const dns = new TestDns()
    const tcp = createServer(socket => dns.#serveTcp(socket)).listen(0, '127.0.0.1')
    await once(tcp, 'listening')
    dns.port = (tcp.address() as AddressInfo).port
    const udp = createSocket('udp4')
    udp.bind(dns.port, '127.0.0.1')
    await once(udp, 'listening')
    udp.on('message', (message, { port }) => {
      void dns.#answer(message, 'udp').then(answer => answer && udp.send(answer, port, '127.0.0.1'))
    })
    dns.#tcp = tcp
    dns.#udp = udp
    dns.address = `127.0.0.1:${dns.port}`
    return dns
  }

  /** Replaces the records of one type of a name; none removes them. */
  set(name: string, kind: Kind, ...values: Value[]): void {
    const records = this.#records.get(name) ?? new Map<Kind, Value[]>()
    if (values.length > 0) records.set(kind, values)
    else records.delete(kind)
    if (records.size > 0) this.#records.set(name, records)
    else this.#records.delete(name)
  }

  /** Questions about a name, or with `*` about any, are not answered; null = they are again. */
  misbehave(name: string, how: Misbehaviour | null): void {
    if (how === null) this.#misbehaviours.delete(name)
    else this.#misbehaviours.set(name, how)
  }

  /** Names below a zone are those of another name server on loopback; null = no longer. */
  delegate(zone: string, port: number | null): void {
    if (port === null) this.#delegations.delete(zone)
    else this.#delegations.set(zone, port)
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await Promise.all([
      new Promise<void>(resolve => this.#udp?.close(() => resolve()) ?? resolve()),
      new Promise<void>(resolve => this.#tcp?.close(() => resolve()) ?? resolve()),
    ])
  }

  #serveTcp(socket: Socket): void {
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
    socket.on('error', () => {}) // the client has ended
    let pending = Buffer.alloc(0)
    socket.on('data', async chunk => {
      pending = Buffer.concat([pending, chunk])
      for (let size = sizeOf(pending); size !== null && pending.length >= size + 2; size = sizeOf(pending)) {
        const message = pending.subarray(2, size + 2)
        pending = pending.subarray(size + 2)
        const answer = await this.#answer(message, 'tcp')
        if (answer && !socket.destroyed) socket.write(framed(answer))
      }
    })
  }

  async #answer(message: Buffer, over: 'udp' | 'tcp'): Promise<Buffer | null> {
    const query = dnsPacket.decode(message)
    const [question] = query.questions ?? []
    if (!question) return null
    const name = question.name.toLowerCase()
    this.questions.push({ name, type: question.type, over })
    if (this.onQuestion) await this.#linger(this.onQuestion)
    const how = this.#misbehaviours.get(name) ?? this.#misbehaviours.get('*')
    if (how === 'silence') return null
    if (how === 'garbage') return Buffer.from('no packet')
    const { code, answers } = how ? { code: codes[how], answers: [] } : await this.#resolve(name, question.type)
    const packet: Packet = { id: query.id ?? 0, type: 'response', questions: [question], answers }
    const answer = dnsPacket.encode({ ...packet, flags: flags | code })
    if (over === 'tcp' || answer.length <= sizeWanted(query)) return answer
    return dnsPacket.encode({ ...packet, answers: [], flags: flags | dnsPacket.TRUNCATED_RESPONSE })
  }

  async #linger(onQuestion: (change: 1 | -1) => void): Promise<void> {
    onQuestion(1)
    await sleep(20)
    onQuestion(-1)
  }

  async #resolve(name: string, type: string): Promise<{ code: number; answers: Answer[] }> {
    const answers: Answer[] = []
    let current = name
    for (let hop = 0; hop < maxChain; hop++) {
      const below = [...this.#delegations].find(([zone]) => current === zone || current.endsWith(`.${zone}`))
      if (below) return { code: codes.NOERROR, answers: [...answers, ...(await askServer(below[1], current, type))] }
      const records = this.#records.get(current)
      answers.push(...recordsOf(current, type as Kind, records?.get(type as Kind) ?? []))
      const [target] = records?.get('CNAME') ?? []
      if (typeof target !== 'string' || type === 'CNAME')
        return { code: records || answers.length > 0 ? codes.NOERROR : codes.NXDOMAIN, answers }
      answers.push(...recordsOf(current, 'CNAME', [target]))
      current = target.toLowerCase()
    }
    return { code: codes.SERVFAIL, answers: [] }
  }
}

const flags = dnsPacket.RECURSION_DESIRED | dnsPacket.RECURSION_AVAILABLE

const sizeOf = (bytes: Buffer): number | null => (bytes.length < 2 ? null : bytes.readUInt16BE(0))

function framed(message: Buffer): Buffer {
  const size = Buffer.alloc(2)
  size.writeUInt16BE(message.length)
  return Buffer.concat([size, message])
}

/** The datagram that the client takes (EDNS), or the classic one. */
function sizeWanted({ additionals = [] }: Packet): number {
  const option = additionals.find(({ type }) => type === 'OPT') as { udpPayloadSize?: number } | undefined
  return Math.max(classicBytes, option?.udpPayloadSize ?? 0)
}

function recordsOf(name: string, kind: Kind, values: readonly Value[]): Answer[] {
  return values.map(value => ({ name, type: kind, ttl: 0, data: dataOf(kind, value) }) as Answer)
}

function dataOf(kind: Kind, value: Value): unknown {
  if (kind !== 'CAA' || Array.isArray(value)) return value
  const [, bits, tag, text] = /^(\d+) (\S+) (.*)$/.exec(value)!
  return { flags: Number(bits), issuerCritical: Number(bits) >= 128, tag, value: text }
}

/** The answers of a name server to one question over UDP; none when it is silent for 2 s. */
async function askServer(port: number, name: string, type: string): Promise<Answer[]> {
  const answer = await askPacket(port, { type: 'query', id: 1, questions: [{ name, type }] } as Packet)
  return answer?.answers ?? []
}

/** The answer of a name server on loopback to one packet over UDP; null when it is silent for 2 s. */
export async function askPacket(port: number, packet: Packet | Buffer): Promise<Packet | null> {
  const socket = createSocket('udp4')
  try {
    const signal = AbortSignal.timeout(2000)
    const heard = once(socket, 'message', { signal }) as Promise<[Buffer]>
    socket.send(Buffer.isBuffer(packet) ? packet : dnsPacket.encode(packet), port, '127.0.0.1')
    return dnsPacket.decode((await heard)[0])
  } catch {
    return null
  } finally {
    socket.close()
  }
}
