import test from 'ava'
import { OutputLines } from '../../../activities/containers/lines.ts'
import { engineTime, nanosecondsOf } from '../../../activities/containers/stamps.ts'

const stamp = '2026-11-23T00:43:37.242152852Z'

function frame(stream: 1 | 2, text: string | Buffer, at = stamp): Buffer {
  const body = Buffer.concat([Buffer.from(`${at} `), Buffer.from(text)])
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

test('lines are whole and separate per stream, wherever the chunks are cut', t => {
  const bytes = Buffer.concat([frame(1, 'olá '), frame(2, 'er'), frame(1, 'ção 🚢\r\n\nnext'), frame(2, 'ro\nlast')])
  for (let size = 1; size <= bytes.length; size++)
    t.deepEqual(
      linesOf(bytes, size),
      ['stdout olá ção 🚢', 'stdout ', 'stderr erro', 'stdout next', 'stderr last'],
      `chunks of ${size}`,
    )
})

test('a long line is split into pieces of 64 KB between characters, without loss', t => {
  const line = `a${'🚢'.repeat(50_000)}`
  for (const size of [1000, 65_536, 1_000_000]) {
    const pieces = linesOf(frame(1, `${line}\nend\n`), size).map(piece => piece.slice('stdout '.length))
    t.is(pieces.at(-1), 'end')
    t.true(pieces.every(piece => Buffer.byteLength(piece) <= 65_536))
    t.is(pieces.slice(0, -1).join(''), line)
  }
})

test('bytes that are not text are split too', t => {
  const pieces = linesOf(frame(2, Buffer.alloc(200_000, 0x80)), 4096)
  t.is(pieces.length, 4)
})

test('each line has the time of the frame in which it ends', t => {
  const [first, second, third] = ['11.000000001', '11.5', '12'].map(seconds => `2026-11-23T00:43:${seconds}Z`)
  const bytes = Buffer.concat([frame(1, 'one\ntw', first), frame(1, 'o\n', second), frame(2, 'three', third)])
  for (let size = 1; size <= bytes.length; size++) {
    const lines = new OutputLines()
    const found = []
    for (let at = 0; at < bytes.length; at += size) found.push(...lines.push(bytes.subarray(at, at + size)))
    const times = [...found, ...lines.end()].map(({ text, at }) => [text, engineTime(at)])
    const since = Date.parse('2026-11-23T00:43:11Z') / 1000
    t.deepEqual(times, [
      ['one', `${since}.000000001`],
      ['two', `${since}.500000000`],
      ['three', `${since + 1}.000000000`],
    ])
  }
})

test('times of other engines are parsed, and an invalid one is reported', t => {
  t.is(nanosecondsOf('1970-01-01T01:00:01.25+01:00'), 1_250_000_000n)
  t.throws(() => nanosecondsOf('yesterday'), { message: /invalid line time: yesterday/ })
})
