import { type FileHandle, open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { intake } from '../../policy/network/analytics-terms.ts'
import type { Progress, Slice } from './port.ts'

/** A file of the proxy: one hour of UTC. */
export interface LogFile {
  name: string
  day: string
  size: number
}

export interface ReadSlice extends Slice {
  /** The file had more than fits into the slice. */
  hasMore: boolean
  /** The file is shorter than its progress: there are no lines, only the offset from which it goes on. */
  isShorter: boolean
}

const fileForm = /^access-(\d{4}-\d{2}-\d{2})T\d{2}\.log$/

/** The files of the access log, oldest first; none while the proxy has not logged anything. */
export async function listLogFiles(folder: string): Promise<LogFile[]> {
  const names = (await readdir(folder).catch(absent([]))).sort()
  const files = await Promise.all(
    names.map(async name => {
      const [, day] = fileForm.exec(name) ?? []
      const size = day ? await stat(join(folder, name)).then(({ size }) => size, absent(null)) : null
      return day && size !== null ? { name, day, size } : null
    }),
  )
  return files.filter(file => file !== null)
}

/**
 * The lines of a file from its progress on, at most one slice: only whole lines, as the proxy may be writing the last one. Null when there
 * are none. A file that begins otherwise than it did is another file under the name, and read from its start. One that begins as it did and is
 * shorter than its progress has lost its end, as in a power failure: what is left of it has been taken in already.
 */
export async function readSlice(
  folder: string,
  { name, day }: Pick<LogFile, 'name' | 'day'>,
  progress: Progress | undefined,
): Promise<ReadSlice | null> {
  const handle = await open(join(folder, name), 'r').catch(absent(null))
  if (!handle) return null
  try {
    const { size } = await handle.stat()
    const head = (await bytesAt(handle, 0, Math.min(intake.headBytes, size))).toString('hex')
    const offset = progress && head.startsWith(progress.head) ? progress.offset : 0
    if (offset > size) {
      const end = await lastLineStart(handle, size)
      return { day, file: name, head, end, lines: Buffer.alloc(0), hasMore: false, isShorter: true }
    }
    const bytes = await bytesAt(handle, offset, Math.min(intake.sliceBytes, size - offset))
    const whole = bytes.lastIndexOf('\n') + 1
    const slice = { day, file: name, head, hasMore: offset + bytes.length < size, isShorter: false }
    if (whole > 0) return { ...slice, end: offset + whole, lines: bytes.subarray(0, whole) }
    if (bytes.length < intake.maxLineBytes) return null
    return { ...slice, end: offset + bytes.length, lines: Buffer.alloc(0) }
  } finally {
    await handle.close()
  }
}

async function lastLineStart(handle: FileHandle, size: number): Promise<number> {
  const from = Math.max(0, size - intake.maxLineBytes)
  return from + (await bytesAt(handle, from, size - from)).lastIndexOf('\n') + 1
}

async function bytesAt(handle: FileHandle, offset: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length)
  let filled = 0
  while (filled < length) {
    const { bytesRead } = await handle.read(buffer, filled, length - filled, offset + filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return buffer.subarray(0, filled)
}

const absent =
  <T>(instead: T) =>
  (error: NodeJS.ErrnoException): T => {
    if (error.code === 'ENOENT') return instead
    throw error
  }
