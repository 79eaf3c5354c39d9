import type { Readable } from 'node:stream'

const longestLine = 300
/** A server may send text without end. */
const mostLines = 500

/** Tells each finished line of what git says, without what could steer a terminal and without states that were overwritten. */
export function eachLine(stream: Readable, tell: (line: string) => void): void {
  let rest = ''
  let told = 0
  const line = (text: string) => {
    const clean = text
      .replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ')
      .trim()
      .slice(0, longestLine)
    if (clean && !isPassing(clean) && told++ < mostLines) tell(clean)
  }
  stream.setEncoding('utf8').on('data', (piece: string) => {
    const lines = (rest + piece).split(/[\r\n]/)
    rest = lines.pop()!.slice(0, longestLine)
    for (const text of lines) line(text)
  })
  stream.once('end', () => line(rest))
}

/** `Receiving objects:  42% (5/12), 1.2 MiB | 3 MiB/s`: the next one replaces it. */
const isPassing = (line: string) => /: +\d+% \(\d+/.test(line) && !line.endsWith('done.')
