import { constants, type Stats } from 'node:fs'
import { type FileHandle, mkdtemp, open, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { codeOf } from '../../lib/folders/error-codes.ts'
import { EngineUnavailable } from './port.ts'

/** O_PATH: opens the name itself, without any right to what it is. */
const pathOnly = 0o10000000

/**
 * Calls `work` with a path to an engine's socket. The engine may change its folder at any time, so the name is opened without following
 * links and connected to by its descriptor: what is reached is a socket in this folder, and no other database's. Also keeps the path
 * below the 107 bytes that a socket's may have. Rejects with EngineUnavailable while there is no such socket.
 */
export async function withSocket<T>(folder: string, name: string, work: (path: string) => Promise<T>): Promise<T> {
  const run = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  try {
    const socket = await openSocket(`/proc/self/fd/${run.fd}/${name}`)
    const own = await mkdtemp(join(tmpdir(), 'berth-'))
    try {
      // Drivers derive names from the path, or look at its end, so it is a link with a usual name.
      const path = join(own, 'engine.sock')
      await symlink(`/proc/self/fd/${socket.fd}`, path)
      return await work(path)
    } finally {
      await rm(own, { recursive: true, force: true })
      await socket.close()
    }
  } finally {
    await run.close()
  }
}

async function openSocket(path: string): Promise<FileHandle> {
  let socket: FileHandle
  try {
    socket = await open(path, pathOnly | constants.O_NOFOLLOW)
  } catch (cause) {
    if (codeOf(cause) !== 'ENOENT') throw cause
    throw new EngineUnavailable('The engine has no socket yet.', { cause })
  }
  const stats: Stats = await socket.stat()
  if (stats.isSocket()) return socket
  await socket.close()
  throw new EngineUnavailable('What has the name of the engine’s socket is no socket.')
}
