import test from 'ava'
import { OutputLines } from '../../activities/container-lines.ts'

function frame(stream: 1 | 2, text: string | Buffer): Buffer {
  const body = Buffer.from(text)
  const head = Buffer.from([stream, 0, 0, 0, 0, 0, 0, 0])
  head.writeUInt32BE(body.length, 4)
  return Buffer.concat([head, body])
}

function linesOf(bytes: Buffer, size: number): string[] {
  const lines = new OutputLines()
  const found = []
  for (let at = 0; at < bytes.length; at += size) found.push(...lines.push(bytes.subarray(at, at + size)))
  return [...found, ...lines.end()].map(({ stream, text }) => `${stream} ${text}`)
}

test('lines come whole and each output by itself, wherever the chunks are cut', t => {
  const bytes = Buffer.concat([frame(1, 'olá '), frame(2, 'er'), frame(1, 'ção 🚢\r\n\nnext'), frame(2, 'ro\nlast')])
  for (let size = 1; size <= bytes.length; size++)
    t.deepEqual(
      linesOf(bytes, size),
      ['stdout olá ção 🚢', 'stdout ', 'stderr erro', 'stdout next', 'stderr last'],
      `chunks of ${size}`,
    )
})

test('a long line comes in pieces of 64 KB that cut no character, and none of it is lost', t => {
  const line = `a${'🚢'.repeat(50_000)}`
  for (const size of [1000, 65_536, 1_000_000]) {
    const pieces = linesOf(frame(1, `${line}\nend\n`), size).map(piece => piece.slice('stdout '.length))
    t.is(pieces.at(-1), 'end')
    t.true(pieces.every(piece => Buffer.byteLength(piece) <= 65_536))
    t.is(pieces.slice(0, -1).join(''), line)
  }
})

test('bytes that are no text are cut all the same', t => {
  const pieces = linesOf(frame(2, Buffer.alloc(200_000, 0x80)), 4096)
  t.is(pieces.length, 4)
})
