import { execFile } from 'node:child_process'
import { closeSync, ftruncateSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { crc32 } from 'node:zlib'
import test from 'ava'
import type { ArchiveEntry } from '../../../activities/archives/directory.ts'
import { SnapshotDirectory } from '../../../activities/snapshots/directory.ts'
import { comparePaths, type ManifestLine, readLine, writeLine } from '../../../activities/snapshots/manifest.ts'
import {
  centralRecord,
  dataDescriptor,
  endRecords,
  localHeader,
  wideFromBytes,
  type ZipEntry,
} from '../../../activities/snapshots/zip.ts'
import { ownFolder } from '../../kit/folders.ts'

const run = promisify(execFile)
const content = Buffer.from('far away')
const mtime = Date.UTC(2026, 10, 21, 10, 0, 0)

const entry = (name: string, changes: Partial<ZipEntry>): ZipEntry => ({
  name: Buffer.from(name),
  mode: 0o100640,
  mtime,
  deflated: false,
  described: false,
  wide: false,
  crc: crc32(content),
  size: content.length,
  packed: content.length,
  offset: 0,
  ...changes,
})

test('more entries, longer files and larger offsets than the old format supports are read by any tool', async t => {
  const path = join(ownFolder(t), 'wide.zip')
  const fd = openSync(path, 'w+')
  const near = entry('near', {})
  const huge = entry('huge', {
    described: true,
    wide: true,
    size: 5 * 2 ** 30,
    packed: 5 * 2 ** 30,
    offset: 100,
    crc: 7,
  })
  const far = entry('far', { offset: 6 * 2 ** 30 })
  writeSync(fd, Buffer.concat([localHeader(near), content]), 0, null, 0)
  writeSync(fd, localHeader(huge), 0, null, huge.offset)
  writeSync(fd, dataDescriptor(huge), 0, null, huge.offset + localHeader(huge).length + huge.packed)
  writeSync(fd, Buffer.concat([localHeader(far), content]), 0, null, far.offset)
  const many = Array.from({ length: 70_000 }, (_, n) => entry(`near-${n}`, {}))
  const start = 6 * 2 ** 30 + 1000
  const directory = Buffer.concat([near, huge, far, ...many].map(centralRecord))
  writeSync(fd, directory, 0, null, start)
  writeSync(fd, endRecords(70_003, start, directory.length), 0, null, start + directory.length)
  const script = `
import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
infos = archive.infolist()
print(len(infos), infos[1].file_size, infos[2].header_offset, archive.read('far').decode(), oct(infos[0].external_attr >> 16))`
  const { stdout } = await run('python3', ['-c', script, path])
  t.is(stdout.trim(), `70003 ${5 * 2 ** 30} ${6 * 2 ** 30} far away 0o100640`)
  const entries: ArchiveEntry[] = []
  for await (const entry of new SnapshotDirectory(fd).entries()) entries.push(entry)
  t.is(entries.length, 70_003)
  t.like(entries[1], { path: 'huge', size: 5 * 2 ** 30, compressedSize: 5 * 2 ** 30, header: 100, mode: 0o640 })
  t.is(new SnapshotDirectory(fd).located(entries[2]!).start, far.offset + localHeader(far).length)
  t.regex((await run('unzip', ['-Zt', path])).stdout, /70003 files/)
  ftruncateSync(fd, 0)
  closeSync(fd)
})

test('sizes are written wide before they could become too large for the short form', t => {
  t.true(wideFromBytes + wideFromBytes / 1000 < 0xffff_ffff)
  t.is(dataDescriptor(entry('x', { wide: true })).length, 24)
  t.is(dataDescriptor(entry('x', {})).length, 16)
})

test('paths are in the order of a walk, whatever their bytes', t => {
  const walked = ['a', 'a/b', 'a/b/c', 'a/c', 'a b', 'a-b', 'a.txt', 'ab', 'b', '\xff']
  t.deepEqual([...walked].reverse().sort(comparePaths), walked)
  t.is(comparePaths('a/b', 'a/b'), 0)
})

test('a line of the manifest can contain any path', t => {
  for (const path of [
    'plain',
    'with "quotes"\n and \\',
    Buffer.from('日本').toString('latin1'),
    '\xff\x80',
    '__proto__',
  ]) {
    const line: ManifestLine = { path, kind: 'file', mode: 0o640, size: 1, mtime: 1.5, sha256: 'ab' }
    const text = writeLine(line, true)
    t.false(text.includes('\n'))
    t.deepEqual(readLine(`${text},`), line)
    t.deepEqual(readLine(text), line)
  }
  t.is(readLine('],"total":{}}'), null)
})
