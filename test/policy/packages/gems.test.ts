import test from 'ava'
import { gemDigests, gemPath, gemsOf } from '../../../policy/packages/gems.ts'

test('of an index of gems archives never change, and what it says about gems and versions does', t => {
  for (const path of ['names', 'versions']) t.deepEqual(gemPath(path), { kind: 'list' }, path)
  t.deepEqual(gemPath('info/tiny.gem_2-x'), { kind: 'info', name: 'tiny.gem_2-x' })
  t.deepEqual(gemPath('gems/tiny-1.0.0-x86_64-linux.gem'), { kind: 'archive', file: 'tiny-1.0.0-x86_64-linux' })
  t.deepEqual(gemPath('quick/Marshal.4.8/tiny-1.0.0.gemspec.rz'), { kind: 'document' })
  for (const path of ['', 'versions/', 'info/', 'info/a/b', 'gems/tiny', 'gems/a/b.gem', 'specs.4.8.gz', 'info/a%2fb'])
    t.is(gemPath(path), null, path)
})

test('the digest of a gem is that of its version and platform', t => {
  const [one, two] = ['a'.repeat(64), 'B'.repeat(64)]
  const info =
    `---\n1.0.0 deep:>= 1&< 3,other:~> 2|checksum:${one},ruby:>= 2.7\n1.0.0-java |ruby:>= 2,checksum:${two}\n` +
    `1.1.0 |ruby:>= 2\n1.2.0 |checksum:abc\n-1.0.0 |checksum:${one}\n`
  t.deepEqual(Object.fromEntries(gemDigests(info)), {
    '1.0.0': { algorithm: 'sha256', hex: one },
    '1.0.0-java': { algorithm: 'sha256', hex: two.toLowerCase() },
  })
  t.is(gemDigests('').size, 0)
})

test('a file is of any gem whose name its version may follow', t => {
  const names = (file: string) => gemsOf(file).map(({ name, version }) => `${name} ${version}`)
  t.deepEqual(names('tiny-1.0.0-x86_64-linux'), ['tiny 1.0.0-x86_64-linux'])
  t.deepEqual(names('tiny-2-1.0.0'), ['tiny 2-1.0.0', 'tiny-2 1.0.0'])
  for (const file of ['tiny', '-1.0.0', 'tiny-x']) t.deepEqual(names(file), [], file)
  t.is(gemsOf(`a${'-1'.repeat(1000)}`).length, 4)
})
