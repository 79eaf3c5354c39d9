import { createSocket, type RemoteInfo } from 'node:dgram'
import { once } from 'node:events'
import { type AddressInfo, createServer, isIPv6, type Socket } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { Logger } from 'pino'
import { nameServerRules } from '../../policy/domains/name-server-rules.ts'
import { answerOf, type Zone } from './answers.ts'

export interface NameServerOptions extends Zone {
  address: string
  /** 0 = any free one. */
  port: number
  log: Pick<Logger, 'warn'>
  /** A connection ends after so long, whatever happens on it. */
  connectionMs?: number
}

export interface NameServer {
  port: number
  stop(): Promise<void>
}

/**
 * Answers TXT questions for one zone, over UDP and TCP, and nothing else. Anyone may ask, so what one sender, and all of them, can make it
 * do is bounded; what is beyond the bounds gets no answer, and resolvers ask again.
 */
export async function startNameServer(options: NameServerOptions): Promise<NameServer> {
  const { name, texts, address, port, log, connectionMs = nameServerRules.connectionMs } = options
  let reading = 0
  const zone: Zone = {
    name: name.toLowerCase(),
    async texts(asked) {
      reading++
      try {
        return await texts(asked)
      } catch (error) {
        log.warn({ err: error }, 'the texts of a name could not be read')
        throw error
      } finally {
        reading--
      }
    },
  }
  const isBusy = () => reading >= nameServerRules.atOnce
  const allowance = new Allowance()

  const sockets = new Set<Socket>()
  // A client may close its side once it has asked.
  const tcp = createServer({ allowHalfOpen: true }, socket => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    const { remoteAddress = '' } = socket // none: it is closed already
    const mayAsk = () => !isBusy() && remoteAddress !== '' && allowance.take(remoteAddress, Date.now())
    serve(socket, async message => (mayAsk() ? answerOf(message, zone, 'tcp') : null), connectionMs)
  })
  tcp.maxConnections = nameServerRules.connections
  tcp.listen(port, address)
  await once(tcp, 'listening')
  const bound = (tcp.address() as AddressInfo).port

  const udp = createSocket(isIPv6(address) ? 'udp6' : 'udp4')
  const onMessage = async (message: Buffer, from: RemoteInfo) => {
    if (isBusy() || !allowance.take(from.address, Date.now())) return
    const answer = await answerOf(message, zone, 'udp')
    // The socket may have been closed meanwhile; a lost answer is asked for again.
    if (answer) udp.send(answer, from.port, from.address, () => {})
  }
  udp.on('message', (message, from) => {
    onMessage(message, from).catch(error => log.warn({ err: error }, 'a question was not answered'))
  })
  udp.on('error', error => log.warn({ err: error }, 'the name server has an error'))
  udp.bind(bound, address)
  try {
    await once(udp, 'listening')
  } catch (error) {
    tcp.close()
    throw error
  }

  return {
    port: bound,
    async stop() {
      for (const socket of sockets) socket.destroy()
      await Promise.all([
        new Promise<void>(resolve => udp.close(() => resolve())),
        new Promise<void>(resolve => tcp.close(() => resolve())),
      ])
    },
  }
}

/** Questions in the present second, in all and of each network. */
export class Allowance {
  #second = 0
  #all = 0
  readonly #ofNetworks = new Map<string, number>()

  take(address: string, now: number): boolean {
    const second = Math.floor(now / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#all = 0
      this.#ofNetworks.clear()
    }
    // Counted first, so that the networks that are remembered are bounded too.
    if (++this.#all > nameServerRules.perSecond) return false
    const network = networkOf(address)
    const count = (this.#ofNetworks.get(network) ?? 0) + 1
    this.#ofNetworks.set(network, count)
    return count <= nameServerRules.perNetworkSecond
  }
}

function networkOf(address: string): string {
  const parsed = ipaddr.process(address.split('%')[0]!)
  return parsed
    .toByteArray()
    .slice(0, parsed.kind() === 'ipv4' ? 3 : 7)
    .join('.')
}

/** Answers the questions of one connection, one after the other: each has its length before it. */
function serve(socket: Socket, answer: (message: Buffer) => Promise<Buffer | null>, lastsMs: number): void {
  let pending = Buffer.alloc(0)
  let count = 0
  const end = () => void socket.destroy()
  socket.on('error', end)
  socket.setTimeout(nameServerRules.idleMs, end)
  // A byte now and then is no silence, and an unread answer is never sent.
  const deadline = setTimeout(end, lastsMs)
  socket.once('close', () => clearTimeout(deadline))
  const proceed = async () => {
    while (pending.length >= 2) {
      const size = pending.readUInt16BE(0)
      if (size > nameServerRules.questionBytes || ++count > nameServerRules.perConnection) return end()
      if (pending.length < size + 2) {
        count--
        return
      }
      const reply = await answer(pending.subarray(2, size + 2))
      pending = pending.subarray(size + 2)
      if (reply === null || socket.destroyed) return end()
      const length = Buffer.alloc(2)
      length.writeUInt16BE(reply.length)
      socket.write(Buffer.concat([length, reply]))
    }
  }
  let work = Promise.resolve()
  socket.on('data', chunk => {
    pending = Buffer.concat([pending, chunk])
    socket.pause()
    work = work.then(proceed).then(
      () => void socket.resume(),
      () => void end(),
    )
  })
  socket.on('end', () => void work.then(() => socket.end()))
}
