import test from 'ava'
import { crateIn, cratePath, crateUrl, isCratePath, rewriteIndexSettings } from '../../../policy/packages/crates.ts'

test('a crate has a path of its name in the index, in small letters', t => {
  const paths = ['1/a', '2/ab', '3/a/abc', 'ab/cd/abcd', 'se/rd/serde_json']
  t.deepEqual(['A', 'ab', 'aBc', 'abcd', 'serde_json'].map(cratePath), paths)
  for (const path of paths) t.true(isCratePath(path), path)
  for (const path of ['a', '1/ab', 'ab/cd/other', 'config.json', 'se/rd/../x', '3/b/abc', ''])
    t.false(isCratePath(path), path)
})

test('an archive is where the pattern of its index says', t => {
  const crate = { name: 'Serde', version: '1.0.0+x' }
  t.is(crateUrl('https://a.test/crates', crate), 'https://a.test/crates/Serde/1.0.0+x/download')
  t.is(crateUrl('https://a.test/{crate}-{version}', crate), 'https://a.test/Serde-1.0.0+x')
  t.is(crateUrl('https://a.test/{prefix}/{lowerprefix}', crate), 'https://a.test/Se/rd/se/rd')
  t.is(crateUrl('https://a.test/{prefix}/{lowerprefix}', { name: 'Abc', version: '1.0.0' }), 'https://a.test/3/A/3/a')
  for (const pattern of ['ftp://a.test', 'https://user:secret@a.test/', 'x'])
    t.is(crateUrl(pattern, crate), null, pattern)
  t.deepEqual(crateIn('Serde/1.0.0+x.crate'), crate)
  for (const path of ['Serde/1.0.0', '../x.crate', 'a/b/1.crate', 'Serde/1/2.crate', 'x/...crate', 'x/....crate'])
    t.is(crateIn(path), null, path)
})

test('the settings of an index get the address of the cache, and keep the others', t => {
  const rewritten = rewriteIndexSettings(
    '{"dl":"https://a.test","api":"https://b.test"}',
    pattern => `cache:${pattern}`,
  )
  t.deepEqual(JSON.parse(rewritten), { api: 'https://b.test', dl: 'cache:https://a.test/{crate}/{version}.crate' })
  for (const text of ['{}', '{"dl":"https://a.test/{sha256-checksum}"}', '<html>'])
    t.throws(() => rewriteIndexSettings(text, x => x), undefined, text)
})
