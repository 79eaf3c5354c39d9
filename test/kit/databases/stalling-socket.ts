import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * A socket before that of an engine, which stops passing on what the engine says after so many pieces of at most 256 bytes; connections stay open. `close` it.
 */
export async function stallingSocket(engine: string, afterPieces = Number.POSITIVE_INFINITY) {
  const folder = mkdtempSync(join(tmpdir(), 'berth-stall-'))
  const path = join(folder, 'engine.sock')
  const open = new Set<Socket>()
  const both = new Set<Socket>()
  let pieces = 0
  let stalls = () => {}
  const stalled = new Promise<void>(resolve => {
    stalls = resolve
  })
  const server = createServer(client => {
    const behind = connect({ path: engine })
    open.add(client)
    for (const [socket, other] of [
      [client, behind],
      [behind, client],
    ] as const) {
      both.add(socket)
      socket.on('error', () => other.destroy())
      socket.on('close', () => {
        open.delete(socket)
        other.destroy()
      })
    }
    client.on('data', bytes => behind.write(bytes))
    behind.on('data', bytes => {
      pieces += Math.ceil(bytes.length / pieceBytes)
      if (pieces > afterPieces) {
        behind.pause()
        stalls()
      } else client.write(bytes)
    })
  })
  server.listen(path)
  await once(server, 'listening')
  return {
    path,
    /** Resolves when something is held back. */
    stalled,
    pieces: () => pieces,
    /** Connections of clients that are open still. */
    connections: () => open.size,
    close(): void {
      for (const socket of both) socket.destroy()
      server.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const pieceBytes = 256
