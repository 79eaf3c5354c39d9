import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { MiB } from '../../../../lib/bytes.ts'
import { codeOf, unreachable } from '../../../../lib/folders/error-codes.ts'
import { Tree } from '../../../../lib/folders/tree.ts'

const folderName = 'appendonlydir'
/** Changes since the file before; Redis writes to the last one. */
const isPart = (name: string): boolean => /^appendonly\.aof\.\d{1,9}\.incr\.aof$/.test(name)

const windowBytes = MiB
/** Redis reads lines of 1023 characters at most. */
const lineBytes = 256
const [zero, star, hash] = [0, 0x2a, 0x23]

/**
 * Repairs the log of a Redis that has ended, by the path of its data folder; true = there was something to repair. Where its disk was full
 * Redis (7 and 8) takes back what it wrote in part, by ftruncate, and then goes on where it was: it does not open the files that a rewrite
 * begins for appending. So the log has zeros between two commands, and Redis refuses to load the whole database. Nothing that was
 * acknowledged is missing: comments take the place of the zeros, which needs no more room.
 */
export async function repairLog(data: string): Promise<boolean> {
  const tree = new Tree(data, { readOnly: true })
  try {
    if (!tree.stat(folderName)?.isDirectory()) return false
    let isRepaired = false
    for (const name of tree.list(folderName).filter(isPart))
      if (await repairPart(tree.at(`${folderName}/${name}`))) isRepaired = true
    return isRepaired
  } finally {
    tree.close()
  }
}

/** The engine may have put anything under this name. */
async function repairPart(path: Buffer): Promise<boolean> {
  const file = await open(path, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(missing)
  if (!file) return false
  try {
    const stats = await file.stat()
    if (!stats.isFile()) return false
    const holes = await holesOf(reader(file, stats.size))
    for (const { from, to } of holes) await fill(file, from, to)
    if (holes.length > 0) await file.sync()
    return holes.length > 0
  } finally {
    await file.close()
  }
}

interface Reader {
  size: number
  /** The byte here; -1 after the end. */
  byte(at: number): Promise<number>
  /** What the window has from here on. */
  from(at: number): Promise<Buffer>
}

function reader(file: FileHandle, size: number): Reader {
  let [start, window] = [0, Buffer.alloc(0)]
  const from = async (at: number): Promise<Buffer> => {
    if (at < start || at >= start + window.length) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(windowBytes), 0, windowBytes, at)
      ;[start, window] = [at, buffer.subarray(0, bytesRead)]
    }
    return window.subarray(at - start)
  }
  return { size, from, byte: async at => (at < size ? ((await from(at))[0] ?? -1) : -1) }
}

interface Hole {
  from: number
  to: number
}

/** Runs of zeros where a command should begin. What is damaged in another way is left as it is, from there on. */
async function holesOf(log: Reader): Promise<Hole[]> {
  const holes: Hole[] = []
  for (let at = 0; at < log.size; ) {
    const first = await log.byte(at)
    if (first === zero) {
      const to = await endOfZeros(log, at)
      const next = await log.byte(to)
      if (to - at < 2 || ![star, hash, -1].includes(next)) return holes
      holes.push({ from: at, to })
      at = to
      continue
    }
    const end = first === star ? await endOfCommand(log, at) : first === hash ? (await line(log, at))?.end : undefined
    if (end === undefined) return holes
    at = end
  }
  return holes
}

async function endOfZeros(log: Reader, at: number): Promise<number> {
  for (let end = at; ; ) {
    const bytes = await log.from(end)
    const other = bytes.findIndex(byte => byte !== zero)
    if (other >= 0) return end + other
    end += bytes.length
    if (bytes.length === 0 || end >= log.size) return log.size
  }
}

async function endOfCommand(log: Reader, at: number): Promise<number | undefined> {
  const head = await line(log, at)
  const count = numberAfter('*', head?.text)
  if (!head || count === undefined) return undefined
  let end = head.end
  for (let word = 0; word < count; word++) {
    const length = await line(log, end)
    const bytes = numberAfter('$', length?.text)
    if (!length || bytes === undefined) return undefined
    end = length.end + bytes + 2
  }
  return end
}

const numberAfter = (mark: string, text = ''): number | undefined =>
  text[0] === mark && /^\d{1,12}$/.test(text.slice(1)) ? Number(text.slice(1)) : undefined

/** The longest line that is none of the values. */
const maxLine = 1024

/** Undefined when it has no end. */
async function line(log: Reader, at: number): Promise<{ text: string; end: number } | undefined> {
  let bytes = await log.from(at)
  // It may begin in one window and end in the next.
  if (bytes.length < maxLine && at + bytes.length < log.size)
    bytes = Buffer.concat([bytes, (await log.from(at + bytes.length)).subarray(0, maxLine)])
  const end = bytes.subarray(0, maxLine).indexOf('\n')
  return end < 0 ? undefined : { text: bytes.toString('latin1', 0, end).trimEnd(), end: at + end + 1 }
}

/** Comments that take exactly this room: Redis skips lines that begin with `#`. */
async function fill(file: FileHandle, from: number, to: number): Promise<void> {
  for (let at = from; at < to; ) {
    const left = to - at
    const length = left < 2 * lineBytes ? left : lineBytes
    await file.write(Buffer.from(`${'#'.padEnd(length - 1)}\n`, 'latin1'), 0, length, at)
    at += length
  }
}

function missing(error: unknown): null {
  if (unreachable.has(codeOf(error))) return null
  throw error
}
