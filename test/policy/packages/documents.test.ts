import test from 'ava'
import {
  type ArchiveLink,
  integrityOf,
  rewriteNpm,
  rewriteSimpleHtml,
  rewriteSimpleJson,
} from '../../../policy/packages/documents.ts'

const sha256 = 'ab'.repeat(32)
const sha1 = 'cd'.repeat(20)
const sha512 = `sha512-${Buffer.from('ef'.repeat(64), 'hex').toString('base64')}`
const at = 'https://registry.test/simple/tiny/'
const link = ({ url }: ArchiveLink): string => `http://cache/${encodeURIComponent(url)}`

/** Links as `link`, and lists what it has linked. */
function listing() {
  const archives: ArchiveLink[] = []
  const listed = (archive: ArchiveLink): string => {
    archives.push(archive)
    return link(archive)
  }
  return { archives, link: listed }
}

test('archives of npm with a digest lead to the cache; others stay where they are', t => {
  const dist = (fields: object) => ({ dist: { tarball: 'https://registry.test/tiny.tgz', ...fields } })
  const versions = {
    strong: dist({ integrity: `sha1-x ${sha512}`, shasum: sha1 }),
    weak: dist({ shasum: sha1 }),
    none: dist({}),
    odd: dist({ integrity: 'sha512-AAAA', shasum: 'x' }),
    file: { dist: { tarball: 'file:///etc/passwd', shasum: sha1 } },
    secret: { dist: { tarball: 'https://a:b@registry.test/tiny.tgz', shasum: sha1 } },
    other: { dist: 'x' },
    null: null,
  }
  const { archives, link: linkTo } = listing()
  const text = rewriteNpm(JSON.stringify({ name: 'tiny', versions }), 'package', at, linkTo)
  const links = Object.entries<{ dist?: { tarball?: string } }>(JSON.parse(text).versions)
  const cached = links
    .filter(([, version]) => version?.dist?.tarball?.startsWith('http://cache/'))
    .map(([name]) => name)
  t.deepEqual(cached, ['strong', 'weak'])
  t.deepEqual(
    archives.map(({ digest }) => digest),
    [
      { algorithm: 'sha512', hex: 'ef'.repeat(64) },
      { algorithm: 'sha1', hex: sha1 },
    ],
  )
  t.is(JSON.parse(text).versions.file.dist.tarball, 'file:///etc/passwd')
  for (const wrong of ['[]', 'null', '"x"', '<html>'])
    t.throws(() => rewriteNpm(wrong, 'package', at, link), undefined, wrong)
})

test('a single version of a package is a document too', t => {
  const version = { name: 'tiny', dist: { tarball: 'https://registry.test/tiny.tgz', shasum: sha1 } }
  const text = rewriteNpm(JSON.stringify(version), 'version', at, link)
  t.true(JSON.parse(text).dist.tarball.startsWith('http://cache/'))
})

test('further fields of a version are not taken for the versions of a package, nor the other way round', t => {
  const dist = { tarball: 'https://registry.test/tiny.tgz', shasum: sha1 }
  const forged = { dist: { ...dist, tarball: 'https://registry.test/other.tgz' } }
  for (const of of ['version', 'package'] as const) {
    const { archives, link: linkTo } = listing()
    rewriteNpm(JSON.stringify({ dist, versions: { '1.0.0': forged } }), of, at, linkTo)
    t.deepEqual(
      archives.map(({ url }) => url),
      [of === 'version' ? dist.tarball : forged.dist.tarball],
    )
  }
})

test('a page of a Python index has whole links: to the cache with a digest, or to where the file is', t => {
  const html = `<!DOCTYPE html><A class="x" href="../../files/a.whl#sha256=${sha256}" data-core-metadata="sha256=${sha256}">a</A>
<a href='https://files.test/b.whl?x=1&amp;y=2'>b</a><a href="mailto:x@y.test">c</a><a name="d">d</a><a href="x" `
  const inHtml = listing()
  const text = rewriteSimpleHtml(html, at, inHtml.link)
  const cached = `http://cache/${encodeURIComponent('https://registry.test/files/a.whl')}#sha256=${sha256}`
  t.true(text.includes(`href="${cached}" data-core-metadata="sha256=${sha256}">a</A>`), text)
  t.true(text.includes('href="https://files.test/b.whl?x=1&amp;y=2"'), text)
  t.true(text.endsWith('<a href="mailto:x@y.test">c</a><a name="d">d</a><a href="x" '), text)
  const digest = { algorithm: 'sha256', hex: sha256 } as const
  t.deepEqual(inHtml.archives, [{ url: 'https://registry.test/files/a.whl', digest, metadata: digest }])
  const based = rewriteSimpleHtml('<base href="https://files.test/x/"><a href="c.whl">c</a>', at, link)
  t.is(based, '<a href="https://files.test/x/c.whl">c</a>')

  const files = [
    { url: 'a.whl', hashes: { sha256 }, 'core-metadata': { sha256 } },
    { url: 'b.whl', hashes: { md5: 'x' } },
  ]
  const inJson = listing()
  const json = rewriteSimpleJson(JSON.stringify({ files }), at, inJson.link)
  const urls = JSON.parse(json).files.map(({ url }: { url: string }) => url)
  t.deepEqual(urls, [`http://cache/${encodeURIComponent(`${at}a.whl`)}`, `${at}b.whl`])
  t.deepEqual(inJson.archives, [{ url: `${at}a.whl`, digest, metadata: digest }])
  for (const wrong of ['{}', '[]', '<html>']) t.throws(() => rewriteSimpleJson(wrong, at, link), undefined, wrong)
})

test('a page is rewritten in time that is in proportion to its length', t => {
  for (const piece of ['<a ', '<', '<a href="', '<a href=x>', '<base '])
    t.notThrows(() => rewriteSimpleHtml(piece.repeat(100_000), at, () => null), piece)
})

test('the strongest digest of a text is the one that counts', t => {
  t.is(integrityOf(`sha1-${Buffer.from(sha1, 'hex').toString('base64')} ${sha512}`)?.algorithm, 'sha512')
  for (const wrong of [undefined, 1, '', 'md5-x', 'sha512-', 'sha256-AAAA', 'x'.repeat(2000)])
    t.is(integrityOf(wrong), null)
})
