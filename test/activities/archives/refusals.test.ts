import test from 'ava'
import { ArchiveRefused } from '../../../activities/archives/port.ts'
import { archives } from '../../../activities/archives/process.ts'
import type { ErrorCode } from '../../../policy/errors.ts'
import { archiveBench } from '../../kit/archives.ts'
import { empties, heavy, manyZeros, overlapping, zeros } from '../../kit/bombs.ts'
import { appZip, zipOf, zipOfEntries } from '../../kit/zips.ts'

const bench = await archiveBench()
const peaks: number[] = []
const pool = archives({
  // All rows request two slots concurrently; on a busy machine the last one waits for minutes.
  waitMs: Number.POSITIVE_INFINITY,
  spareAfterMs: 0,
  observe: child => peaks.push(child.peakBytes - child.idleBytes),
})

test.after.always(async () => {
  await pool.close()
  await bench.close()
})

const link = (target: string) => ({ data: target, mode: 0o120777 })
const flipped = (zip: Buffer, at: number) => {
  zip.writeUInt8(zip.readUInt8(at) ^ 1, at)
  return zip
}
const text = 'hello hello hello hello hello hello'

/** One row per way in which an archive lies or harms. Each is refused as a whole, by inspection and by unpacking. */
const rows: Record<string, [ErrorCode, () => Buffer]> = {
  'a name that climbs out': ['INVALID_FILE', () => appZip({ '../../x': 'x' })],
  'a name that climbs out later': ['INVALID_FILE', () => appZip({ 'a/b/../../../x': 'x' })],
  'a name that climbs out of a dropped folder': ['INVALID_FILE', () => appZip({ 'node_modules/../../x': 'x' })],
  'an absolute name': ['INVALID_FILE', () => appZip({ '/etc/berth-x': 'x' })],
  'a drive': ['INVALID_FILE', () => appZip({ 'C:\\x': 'x' })],
  'a backslash that climbs out': ['INVALID_FILE', () => appZip({ '..\\x': 'x' })],
  'a symbolic link': ['INVALID_FILE', () => appZip({ link: link('index.js') })],
  'a symbolic link and a write through it': ['INVALID_FILE', () => appZip({ l: link('/etc'), 'l/berth-x': 'x' })],
  'a device': ['INVALID_FILE', () => appZip({ null: { mode: 0o020666 } })],
  'a named pipe': ['INVALID_FILE', () => appZip({ pipe: { mode: 0o010644 } })],
  'a socket': ['INVALID_FILE', () => appZip({ socket: { mode: 0o140644 } })],
  'a name twice': [
    'INVALID_FILE',
    () =>
      zipOfEntries([
        { path: 'a', data: '1' },
        { path: 'a', data: '2' },
      ]),
  ],
  'a name twice, spelt differently': ['INVALID_FILE', () => appZip({ './a': '1', a: '2' })],
  'a file that is also a folder': ['INVALID_FILE', () => appZip({ a: '1', 'a/b': '2' })],
  'a folder that is also a file': ['INVALID_FILE', () => appZip({ 'a/b': '1', a: '2' })],
  'a name twice after composition': ['INVALID_FILE', () => appZip({ 'caf\u00e9': '1', 'cafe\u0301': '2' })],
  'a NUL in a name': ['INVALID_FILENAME', () => appZip({ 'a\0b': 'x' })],
  'a line break in a name': ['INVALID_FILENAME', () => appZip({ 'a\r\nb': 'x' })],
  'a part of 256 bytes': ['INVALID_FILENAME', () => appZip({ ['x'.repeat(256)]: 'x' })],
  'a path over 4,096 bytes': ['INVALID_FILENAME', () => appZip({ [Array(30).fill('x'.repeat(200)).join('/')]: 'x' })],
  '2,000 levels': ['INVALID_FILENAME', () => appZip({ [`${'a/'.repeat(2000)}a`]: 'x' })],
  'a name declared UTF-8 that is not': [
    'INVALID_FILENAME',
    () => zipOfEntries([{ path: Buffer.from([0xff, 0xfe]), flags: 0x800 }]),
  ],
  'an empty name': ['INVALID_FILENAME', () => zipOfEntries([{ path: '' }])],
  '200 MiB of zeros': ['INVALID_FILE', () => zeros(200)],
  'zeros spread over files': ['INVALID_FILE', () => manyZeros(50, 8)],
  'over 1 GiB at a legal ratio': ['INVALID_FILE', () => heavy(90)],
  'entries that overlap': ['INVALID_FILE', () => overlapping(1000)],
  '20,001 files': ['INVALID_FILE', () => empties(20_001)],
  '200,000 files': ['INVALID_FILE', () => empties(200_000)],
  '20,001 folders in few names': [
    'INVALID_FILE',
    () => zipOfEntries(Array.from({ length: 200 }, (_, i) => ({ path: `${i}${'/d'.repeat(110)}` }))),
  ],
  'a declared size that is too small': ['INVALID_FILE', () => appZip({ a: { data: text, size: 5 } })],
  'a declared size that is too large': ['INVALID_FILE', () => appZip({ a: { data: text, size: 5000 } })],
  'a stored size that is a lie': [
    'INVALID_FILE',
    () => appZip({ a: { data: text, method: 0, size: 5000, compressedSize: 5000 } }),
  ],
  'a compressed size that is too small': [
    'INVALID_FILE',
    () => appZip({ a: { data: text, method: 8, compressedSize: 5 } }),
  ],
  'bytes hidden behind the compressed data': [
    'INVALID_FILE',
    () =>
      appZip({
        a: { data: '', method: 8, body: Buffer.from('0300', 'hex').subarray(0, 2), compressedSize: 40 },
        b: text.repeat(9),
      }),
  ],
  'a wrong checksum of a small file': ['INVALID_FILE', () => appZip({ a: { data: text, crc: 1 } })],
  'a wrong checksum of a stored file': ['INVALID_FILE', () => appZip({ a: { data: text, method: 0, crc: 1 } })],
  'a wrong checksum of a large file': [
    'INVALID_FILE',
    () => appZip({ a: { data: Buffer.alloc(2_000_000, text), crc: 1 } }),
  ],
  'one flipped bit': ['INVALID_FILE', () => flipped(zipOf({ a: { data: text, method: 0 } }), 40)],
  'data that is no deflate': [
    'INVALID_FILE',
    () => appZip({ a: { data: text, method: 8, body: Buffer.from('\x07garbage') } }),
  ],
  encryption: ['INVALID_FILE', () => appZip({ a: { data: text, flags: 1 } })],
  'strong encryption': ['INVALID_FILE', () => appZip({ a: { data: text, flags: 0x41 } })],
  'another method': ['INVALID_FILE', () => appZip({ a: { data: text, method: 12 } })],
  'several disks': ['INVALID_FILE', () => zipOf({ a: text }, { disk: 1 })],
  'an empty archive': ['INVALID_FILE', () => zipOf({})],
  'an archive of dropped folders only': ['INVALID_FILE', () => zipOf({ 'node_modules/x.js': text })],
  'no bytes at all': ['INVALID_FILE', () => Buffer.alloc(0)],
  'a file that is no archive': ['INVALID_FILE', () => Buffer.from('#!/bin/sh\necho hello\n'.repeat(100))],
  'a cut in the directory': ['INVALID_FILE', () => appZip().subarray(0, -10)],
  'a cut in the data': ['INVALID_FILE', () => appZip().subarray(0, 100)],
  'a directory that counts too many': ['INVALID_FILE', () => zipOf({ a: text }, { count: 5 })],
  'bytes behind the end': ['INVALID_FILE', () => zipOf({ a: text }, { suffix: Buffer.from('more') })],
  'bytes before the start that nobody counted': [
    'INVALID_FILE',
    () => zipOf({ a: text }, { prefix: Buffer.from('#!/bin/sh\n'), rawOffsets: true }),
  ],
  'an offset beyond the end': ['INVALID_FILE', () => zipOfEntries([{ path: 'a', data: text, offset: 1_000_000 }])],
  'an offset into data': ['INVALID_FILE', () => zipOfEntries([{ path: 'a', data: text, offset: 7 }])],
  'a folder with content': ['INVALID_FILE', () => zipOf({ 'a/': text })],
}

/** Messages for entries that differ from what the archive says: never those of a library. */
const sentences: Record<string, string> = {
  'a declared size that is too small': 'a has more bytes than the archive says. Create the archive again.',
  'a declared size that is too large': 'a has fewer bytes than the archive says. Create the archive again.',
  'a wrong checksum of a small file': 'a is damaged: its checksum is wrong. Create the archive again.',
  'data that is no deflate': 'a is damaged. Create the archive again.',
}

/** Max memory of a child above an idle one (D2). */
const mostMemory = 64 * 1024 ** 2

for (const [name, [code, make]] of Object.entries(rows))
  test(`${name}: ${code}`, async t => {
    const zip = make()
    const inspection = await bench.inspect(zip, pool)
    t.false(inspection.ok)
    t.is(!inspection.ok && inspection.code, code, JSON.stringify(inspection))
    if (sentences[name]) t.is(!inspection.ok && inspection.message, sentences[name])
    const { error, paths, around } = await bench.unpack(zip, pool)
    t.true(error instanceof ArchiveRefused, String(error))
    t.is(error?.code, code)
    if (sentences[name]) t.is(error?.message, sentences[name])
    t.deepEqual(paths, [])
    t.deepEqual(around, ['into'])
    t.true(peaks.length > 0)
    // Of this archive and of those that were inspected concurrently.
    t.true(Math.max(...peaks) <= mostMemory, `${Math.max(...peaks)} bytes`)
  })
