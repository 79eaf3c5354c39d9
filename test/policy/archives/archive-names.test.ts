import test from 'ava'
import { decodeName, entryPath, nameFault, staysInside } from '../../../policy/archives/archive-names.ts'
import { isDropped } from '../../../policy/archives/archive-rules.ts'
import { ArchiveTree } from '../../../policy/archives/archive-tree.ts'

const raw = (bytes: number[] | string, utf8 = false, unix = false) => ({
  bytes: Buffer.from(bytes as string),
  utf8,
  unix,
})

test('names are decoded by their declaration, else by their system', t => {
  t.is(decodeName(raw('plain.txt')), 'plain.txt')
  t.is(decodeName(raw('é世.txt', true)), 'é世.txt')
  t.is(decodeName(raw([0x82, 0x2e, 0x6a, 0x73])), 'é.js')
  t.is(decodeName(raw([0x82, 0xff], false, true)), 'é\u00a0')
  t.is(decodeName(raw('é', false, true)), 'é')
  t.is(decodeName(raw('é', false, false)), '├⌐')
  t.is(decodeName(raw([0xff, 0xfe], true)), null)
})

test('every byte of code page 437 is a character', t => {
  const all = decodeName(raw(Array.from({ length: 256 }, (_, byte) => byte)))!
  t.is(new Set(all).size, 256)
})

const paths: Record<string, string | null> = {
  'a/b.js': 'a/b.js',
  './a//b/./c': 'a/b/c',
  'dir\\file.js': 'dir/file.js',
  'a..b/...': 'a..b/...',
  '../x': null,
  'a/../../x': null,
  'a/..': null,
  '..\\x': null,
  'a\\..\\..\\x': null,
  '/etc/x': null,
  '\\x': null,
  'C:\\x': null,
  'c:x': null,
}

for (const [name, path] of Object.entries(paths))
  test(`${JSON.stringify(name)} is ${path ?? 'refused'}`, t => {
    const place = entryPath(name)
    t.is('path' in place ? place.path : null, path)
    if (path === null) t.like(place, { code: 'INVALID_FILE' })
  })

test('a trailing slash marks a folder', t => {
  t.like(entryPath('a/'), { path: 'a', folder: true })
  t.like(entryPath('a\\'), { path: 'a', folder: true })
  t.like(entryPath('./'), { path: '', folder: true })
  t.like(entryPath('a.'), { path: 'a.', folder: false })
})

test('names that are invalid in a folder, or in a log, are refused', t => {
  const long = Array.from({ length: 20 }, () => 'x'.repeat(250)).join('/')
  for (const path of [
    'a\0b',
    'a\nb',
    'a\rb',
    '\u001b[2J',
    'x'.repeat(256),
    'é'.repeat(128),
    long,
    `${'a/'.repeat(2000)}a`,
  ])
    t.like(nameFault(path), { code: 'INVALID_FILENAME' })
  for (const path of ['x'.repeat(255), 'é'.repeat(127), `${'a/'.repeat(127)}a`]) t.is(nameFault(path), null)
})

test('no name may occur twice, or as file and folder; case is significant', t => {
  const faults = (names: [string, boolean?][]) => {
    const tree = new ArchiveTree()
    return names.map(([path, folder = false]) => tree.add(path, folder)?.code ?? null)
  }
  t.deepEqual(faults([['a'], ['a']]), [null, 'INVALID_FILE'])
  t.deepEqual(faults([['a'], ['a/b']]), [null, 'INVALID_FILE'])
  t.deepEqual(faults([['a/b'], ['a']]), [null, 'INVALID_FILE'])
  t.deepEqual(faults([['a', true], ['a']]), [null, 'INVALID_FILE'])
  t.deepEqual(faults([['\u00e9'], ['e\u0301']]), [null, 'INVALID_FILE'])
  t.deepEqual(faults([['\u00e9/a'], ['e\u0301/b']]), [null, 'INVALID_FILE'])
  t.deepEqual(faults([['A.js'], ['a.js'], ['d', true], ['d/x'], ['d', true], ['d/y']]), [
    null,
    null,
    null,
    null,
    null,
    null,
  ])
})

test('folders that only occur in paths count too', t => {
  const tree = new ArchiveTree()
  tree.add('a/b/c/d.js', false)
  t.is(tree.size, 4)
})

test('folders of tools are dropped everywhere, target only at the root', t => {
  for (const path of [
    'node_modules/x',
    'a/node_modules',
    '.git/HEAD',
    'a/__pycache__/b.pyc',
    '.npmrc',
    'target/x.jar',
    '.dockerenv',
  ])
    t.true(isDropped(path), path)
  for (const path of ['src/target/x.js', 'package-lock.json', '.gitignore', '.env', 'my_node_modules/x', 'target.js'])
    t.false(isDropped(path), path)
})

test('links stay inside only when every step does', t => {
  for (const [link, target] of [
    ['l', 'a'],
    ['a/l', '../b'],
    ['a/b/l', '../../c/d'],
    ['l', './a//b'],
    ['a/l', '..'],
  ] as const)
    t.true(staysInside(link, target), `${link} -> ${target}`)
  for (const [link, target] of [
    ['l', '/etc'],
    ['l', '..'],
    ['a/l', '../../x'],
    ['l', 'a/../../x'],
    ['l', 'other/../x'],
    ['l', '../l'],
  ] as const)
    t.false(staysInside(link, target), `${link} -> ${target}`)
})
