import { randomBytes } from 'node:crypto'
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { MiB } from '../../lib/bytes.ts'

const words = Array.from({ length: 4000 }, () => randomBytes(2 + Math.floor(Math.random() * 6)).toString('hex'))
const pieceBytes = MiB

/** Text such as programs write: it packs to about a third. */
function text(bytes: number): Buffer {
  const line = () => Array.from({ length: 12 }, () => words[Math.floor(words.length * Math.random() ** 3)]).join(' ')
  const lines: string[] = []
  for (let length = 0; length < bytes; length += lines.at(-1)!.length + 1) lines.push(line())
  return Buffer.from(lines.join('\n')).subarray(0, bytes)
}

/** An application's files: many small ones, and one large one of which every fourth piece does not pack. Resolves to their bytes. */
export function growTree(folder: string, bytes: number, files: number): number {
  const source = text(8 * pieceBytes)
  const piece = (length: number) => {
    const from = Math.floor(Math.random() * (source.length - length))
    return source.subarray(from, from + length)
  }
  let written = 0
  for (let n = 0; n < files; n++) {
    const below = join(folder, `folder-${Math.floor(n / 500)}`)
    if (n % 500 === 0) mkdirSync(below, { recursive: true })
    // Most are short, some are long: 12 KB on average.
    const length = Math.floor(3000 * Math.exp(1.6 * (Math.random() + Math.random() + Math.random() - 1.5) * 1.5))
    const content = n % 8 === 0 ? randomBytes(length) : piece(Math.min(length, pieceBytes))
    writeFileSync(join(below, `file-${n}.txt`), content)
    written += content.length
  }
  const large = openSync(join(folder, 'large.bin'), 'w')
  for (let turn = 0; written < bytes; turn++)
    written += writeSync(large, turn % 4 === 0 ? randomBytes(pieceBytes) : piece(pieceBytes))
  closeSync(large)
  return written
}
