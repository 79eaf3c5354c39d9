import test from 'ava'
import { GitTree, type TreeEntry } from '../../../policy/archives/git-tree.ts'

const entry = (path: string, mode = '100644', bytes = 1): TreeEntry => ({ path, mode, bytes, id: 'a'.repeat(40) })

test('a tree contains files and links, and neither dropped folders nor submodules count as its files', t => {
  const tree = new GitTree(10)
  for (const kept of [entry('a'), entry('d/b', '100755', 4), entry('l', '120000', 5)]) t.is(tree.add(kept), null)
  for (const left of [entry('node_modules/x', '100644', 99), entry('.git/config', '100644', 99), entry('target/x')])
    t.is(tree.add(left), null)
  t.is(tree.add(entry('sub', '160000', 0)), null)
  t.deepEqual(
    tree.entries.map(({ path }) => path),
    ['a', 'd/b', 'l'],
  )
  t.deepEqual(tree.submodules, ['sub'])
  t.is(tree.bytes, 10)
  t.is(tree.add(entry('one-more'))?.code, 'REPOSITORY_TOO_LARGE')
})

test('files and folders together have a cap', t => {
  const tree = new GitTree(1e9)
  for (let index = 0; index < 10_000; index++) t.is(tree.add(entry(`${index}/f`)), null)
  t.is(tree.add(entry('f'))?.code, 'REPOSITORY_TOO_LARGE')
})

test('dropped files and submodules count against a cap of everything listed, and ten submodules are remembered', t => {
  for (const left of [entry('node_modules/x'), entry('sub', '160000', 0)]) {
    const tree = new GitTree(1e9)
    for (let index = 0; index < 200_000; index++) if (tree.add(left) !== null) return t.fail(`${left.path} ${index}`)
    t.like(tree.add(left), { code: 'REPOSITORY_TOO_LARGE' })
    t.true(tree.submodules.length <= 10)
  }
})

test('clashing, escaping and invalid names end the fetch', t => {
  for (const [first, second] of [
    ['a', 'a'],
    ['a', 'a/b'],
    ['a/b', 'a'],
    ['\u00e9', 'e\u0301'],
    ['x', '../y'],
    ['x', 'a//b'],
    ['x', './y'],
    ['x', '/etc/passwd'],
    ['x', 'a\u001b[2J'],
    ['x', `${'d/'.repeat(200)}f`],
  ] as const) {
    const tree = new GitTree(1e9)
    t.is(tree.add(entry(first)), null)
    const fault = tree.add(entry(second))
    t.is(fault?.code, 'CLONE_FAILED', second)
    t.false(/[\u0000-\u001f]/.test(fault?.message ?? ''))
  }
})

test('links that could lead outside are removed, whatever their names', t => {
  const tree = new GitTree(1e9)
  const targets = { 'd/up': '../a', 'd/out': '../../a', abs: '/etc', wind: 'd/../../a', nul: 'a\0b', none: '' }
  for (const [path, target] of Object.entries(targets)) tree.add(entry(path, '120000', target.length))
  tree.add(entry('long', '120000', 5000))
  t.deepEqual(tree.dropLinksOutside([...Object.values(targets), 'x']), ['d/out', 'abs', 'wind', 'nul', 'none', 'long'])
  t.deepEqual(
    tree.links.map(({ path }) => path),
    ['d/up'],
  )
})
