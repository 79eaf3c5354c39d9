import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { Tree } from '../../../lib/folders/tree.ts'

const base = mkdtempSync(join(tmpdir(), 'berth-folder-'))
test.after.always(() => rmSync(base, { recursive: true, force: true }))

function make(name: string): { folder: Tree; path: string; outside: string } {
  const path = join(base, name, 'inside')
  const outside = join(base, name, 'outside')
  for (const each of [path, outside]) mkdirSync(each, { recursive: true })
  writeFileSync(join(outside, 'kept'), 'kept')
  return { folder: new Tree(path), path, outside }
}

test('files and folders are created at their paths', t => {
  const { folder, path } = make('plain')
  for (const name of ['a/b/c', 'a/b/d', 'a/e', 'f', 'a/b/g/h']) {
    const fd = folder.createFile(name, 0o644)
    writeSync(fd, name)
    closeSync(fd)
  }
  folder.makeFolder('a/b', 0o500)
  folder.makeFolder('i/j', 0o755)
  for (const name of ['a/b/c', 'a/b/d', 'a/e', 'f', 'a/b/g/h']) t.is(readFileSync(join(path, name), 'utf8'), name)
  t.true(existsSync(join(path, 'i/j')))
  folder.clear()
  t.deepEqual(folder.list(), [])
  folder.close()
})

test('a link that appears in the folder is never followed', t => {
  const { folder, path, outside } = make('links')
  symlinkSync(outside, join(path, 'dir'))
  symlinkSync(join(outside, 'kept'), join(path, 'file'))
  symlinkSync(join(outside, 'new'), join(path, 'dangling'))
  t.throws(() => folder.createFile('dir/x', 0o644), { code: 'ENOTDIR' })
  t.throws(() => folder.createFile('dir/deeper/x', 0o644), { code: 'ENOTDIR' })
  t.throws(() => folder.makeFolder('dir', 0o777), { code: 'ENOTDIR' })
  t.throws(() => folder.createFile('file', 0o644), { code: 'EEXIST' })
  t.throws(() => folder.createFile('dangling', 0o644), { code: 'EEXIST' })
  t.throws(() => folder.createLink('file', 'x'), { code: 'EEXIST' })
  folder.clear()
  t.deepEqual(readdirSync(path), [])
  t.deepEqual(readdirSync(outside), ['kept'])
  folder.close()
})

test('a folder that is replaced by a link after it was entered stays the same folder', t => {
  const { folder, path, outside } = make('swapped')
  closeSync(folder.createFile('dir/first', 0o644))
  rmSync(join(path, 'dir'), { recursive: true })
  symlinkSync(outside, join(path, 'dir'))
  t.throws(() => folder.createFile('dir/second', 0o644), { code: 'ENOENT' })
  t.deepEqual(readdirSync(outside), ['kept'])
  folder.close()
})
