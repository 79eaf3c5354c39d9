import type { Readable } from 'node:stream'

const maxLineLength = 300
/** A server may send endless text. */
const maxLines = 500

/** Passes on each complete line of git's output, without terminal control characters and without intermediate progress. */
export function eachLine(stream: Readable, onLine: (line: string) => void): void {
  let rest = ''
  let count = 0
  const line = (text: string) => {
    const clean = text
      .replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ')
      .trim()
      .slice(0, maxLineLength)
    if (clean && !isIntermediate(clean) && count++ < maxLines) onLine(clean)
  }
  stream.setEncoding('utf8').on('data', (piece: string) => {
    const lines = (rest + piece).split(/[\r\n]/)
    rest = lines.pop()!.slice(0, maxLineLength)
    for (const text of lines) line(text)
  })
  stream.once('end', () => line(rest))
}

/** `Receiving objects:  42% (5/12), 1.2 MiB | 3 MiB/s`: the next one replaces it. */
const isIntermediate = (line: string) => /: +\d+% \(\d+/.test(line) && !line.endsWith('done.')
