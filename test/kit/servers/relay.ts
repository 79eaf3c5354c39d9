import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type NetConnectOpts, type Server, type Socket } from 'node:net'

export type RelayMode = 'pass' | 'hang' | 'cut'

export interface Relay {
  /** Where it listens; 0 on a socket file. */
  port: number
  /** `hang` answers nothing, `cut` ends every connection and refuses new ones, `pass` forwards everything. */
  mode(next: RelayMode): Promise<void>
  close(): Promise<void>
}

/** A line to a service that others need too, which can be left hanging or cut; at `host`, or on a socket file at `path`. */
export async function relayTo(target: NetConnectOpts, path?: string, host = '127.0.0.1'): Promise<Relay> {
  let mode: RelayMode = 'pass'
  let server: Server | null = null
  let port = 0
  const open = new Set<Socket>()

  function join(near: Socket): void {
    const far = connect(target)
    for (const socket of [near, far]) {
      open.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        open.delete(socket)
        near.destroy()
        far.destroy()
      })
    }
    near.pipe(far).pipe(near)
    if (mode === 'hang') for (const socket of [near, far]) socket.pause()
  }

  async function listen(): Promise<void> {
    if (server) return
    server = createServer(join).listen(path ? { path } : { port, host })
    await once(server, 'listening')
    if (!path) port = (server.address() as AddressInfo).port
  }

  async function cut(): Promise<void> {
    const closed = server && once(server, 'close')
    server?.close()
    server = null
    for (const socket of open) socket.destroy()
    await closed
    if (path) rmSync(path, { force: true })
  }

  await listen()
  return {
    port,
    async mode(next) {
      mode = next
      if (next === 'cut') return cut()
      await listen()
      for (const socket of open) next === 'hang' ? socket.pause() : socket.resume()
    },
    close: cut,
  }
}
