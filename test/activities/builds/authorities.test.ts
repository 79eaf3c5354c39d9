import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import test, { type ExecutionContext } from 'ava'
import { buildAuthorities } from '../../../activities/builds/authorities.ts'
import type { BuildFact } from '../../../policy/hosts/build-settings.ts'
import { keyStoreOf } from '../../../policy/hosts/build-trust.ts'
import { ownFolder } from '../../kit/folders.ts'
import { demandRoot } from '../../kit/root.ts'
import { certificates } from '../../kit/servers/certificates.ts'

/** The bundle of a host whose system trusts `system.pem`, with further files that settings name. */
function bundleOf(t: ExecutionContext, settings: Record<string, string> = {}) {
  const folder = ownFolder(t)
  const make = certificates(folder)
  make.authority('system')
  const facts: BuildFact[] = []
  const file = (name: string) => join(folder, name)
  const host = join(folder, 'host')
  mkdirSync(host)
  const files = Object.entries(settings).map(([setting, name]) => ({ setting, path: file(name) }))
  const options = { folder: host, stores: [file('none.pem'), file('system.pem')], files, report: keep }
  function keep(fact: BuildFact) {
    facts.push(fact)
  }
  return { make, file, facts, options, authorities: buildAuthorities(options) }
}

/** Common names of a bundle, in its order. */
function namesIn(path: string | null): string[] {
  const blocks = readFileSync(path!, 'utf8').match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
  return blocks.map(block => new X509Certificate(block).subject.replace('CN=', ''))
}

test('a bundle has the authorities of the system and of every file, each once, and anyone may read it', async t => {
  const { make, file, facts, authorities } = bundleOf(t, { NODE_EXTRA_CA_CERTS: 'corp.pem', SSL_CERT_FILE: 'both.pem' })
  make.authority('corp')
  make.authority('other')
  writeFileSync(
    file('both.pem'),
    ['system.pem', 'other.pem'].map(name => readFileSync(file(name), 'utf8')).join('junk'),
  )
  const path = await authorities.bundle()
  t.deepEqual(namesIn(path), ['system', 'corp', 'other'])
  for (const one of [path!, keyStoreOf(path!)]) t.is(statSync(one).mode & 0o777, 0o644)
  const from = `${file('system.pem')}, NODE_EXTRA_CA_CERTS ${file('corp.pem')}, SSL_CERT_FILE ${file('both.pem')}`
  t.deepEqual(facts, [{ state: `3 (${from})`, remedy: null }])
  execFileSync('openssl', ['verify', '-CAfile', path!, file('other.pem')], { stdio: 'ignore' })
})

test('a private key, text and broken certificates in a file stay out of the bundle', async t => {
  const { make, file, authorities } = bundleOf(t, { BUILD_CA_BUNDLE: 'mixed.pem' })
  make.authority('corp')
  const [key, corp] = ['corp.key', 'corp.pem'].map(name => readFileSync(file(name), 'utf8')) as [string, string]
  const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
  const open = '-----BEGIN CERTIFICATE-----\n'.repeat(1000)
  writeFileSync(file('mixed.pem'), `secret words\n${key}${broken}${open}${key}${corp}${key}more\0words`)
  const path = await authorities.bundle()
  t.deepEqual(namesIn(path), ['system', 'corp'])
  t.notRegex(readFileSync(path!, 'utf8'), /KEY|words|AAAA\n/)
})

test('a file that is missing, no file, too large or without certificates is reported, and the rest is trusted', async t => {
  const named = { A: 'missing.pem', B: 'folder', C: 'large.pem', D: 'text.pem', E: 'pipe' }
  const { file, facts, authorities } = bundleOf(t, named)
  mkdirSync(file('folder'))
  writeFileSync(file('large.pem'), Buffer.alloc(5 * 1024 ** 2))
  writeFileSync(file('text.pem'), 'nothing')
  execFileSync('mkfifo', [file('pipe')])
  t.deepEqual(namesIn(await authorities.bundle()), ['system'])
  const [fact] = facts
  for (const words of ['missing.pem IS MISSING', 'folder IS NO FILE', 'large.pem HAS MORE THAN 4 MB'])
    t.true(fact!.state.includes(words), words)
  for (const words of ['text.pem HAS NO CERTIFICATES', 'pipe IS NO FILE']) t.true(fact!.state.includes(words), words)
  t.is(fact!.remedy, 'correct A and B and C and D and E or its file; the host looks again before each build')
})

test('the bundle is made again when one of its files has changed or it is missing, and otherwise left as it is', async t => {
  const { make, file, facts, authorities } = bundleOf(t, { BUILD_CA_BUNDLE: 'corp.pem' })
  const path = (await authorities.bundle())!
  t.deepEqual(namesIn(path), ['system'])
  make.authority('corp')
  t.deepEqual(namesIn(await authorities.bundle()), ['system', 'corp'])
  const before = statSync(path)
  for (let n = 0; n < 3; n++) t.is(await authorities.bundle(), path)
  t.is(statSync(path).ino, before.ino)
  t.is(facts.length, 2)
  rmSync(path)
  t.deepEqual(namesIn(await authorities.bundle()), ['system', 'corp'])
  const keyStore = keyStoreOf(path)
  const stored = readFileSync(keyStore)
  rmSync(keyStore)
  await authorities.bundle()
  t.true(readFileSync(keyStore).equals(stored))
  make.authority('system')
  appendFileSync(file('corp.pem'), '\n')
  t.deepEqual(namesIn(await authorities.bundle()), ['system', 'corp'])
  t.is(facts.length, 5)
})

test('a bundle that cannot be made again leaves the one before in place', async t => {
  const { make, facts, options, authorities } = bundleOf(t, { BUILD_CA_BUNDLE: 'corp.pem' })
  const path = (await authorities.bundle())!
  mkdirSync(join(options.folder, 'build-authorities.pem.new'))
  make.authority('corp')
  t.is(await authorities.bundle(), path)
  t.deepEqual(namesIn(path), ['system'])
  t.is(await authorities.bundle(), path)
  t.is(facts.length, 2, 'a failure is reported once')
  rmSync(join(options.folder, 'build-authorities.pem.new'), { recursive: true })
  t.deepEqual(namesIn(await authorities.bundle()), ['system', 'corp'])
})

test('a host on a full disk starts with the bundle of the process before it, without writing it again when it is equal', async t => {
  demandRoot()
  const { make, facts, options, authorities } = bundleOf(t, { BUILD_CA_BUNDLE: 'corp.pem' })
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', options.folder])
  t.teardown(() => void execFileSync('umount', ['--lazy', options.folder]))
  const full = join(options.folder, 'full')
  const fill = () => t.throws(() => writeFileSync(full, Buffer.alloc(100_000)), { code: 'ENOSPC' })
  fill()
  t.is(await authorities.bundle(), null)
  t.regex(facts.at(-1)!.state, /CANNOT BE WRITTEN \(ENOSPC\): builds trust those of their images$/)
  t.truthy(facts.at(-1)!.remedy)
  t.deepEqual(readdirSync(options.folder), ['full'], 'no draft stays')
  rmSync(full)
  const path = (await authorities.bundle())!
  t.is(facts.at(-1)!.remedy, 'correct BUILD_CA_BUNDLE or its file; the host looks again before each build')
  fill()
  const again = buildAuthorities(options)
  t.is(await again.bundle(), path)
  t.regex(facts.at(-1)!.state, /^1 /, 'an equal one needs no space')
  make.authority('corp')
  t.is(await buildAuthorities(options).bundle(), path)
  t.deepEqual(namesIn(path), ['system'])
  t.regex(facts.at(-1)!.state, /CANNOT BE WRITTEN \(ENOSPC\): the file of before is used$/)
})

test('a bundle does not replace a path that is not a file', async t => {
  const { facts, options, authorities } = bundleOf(t)
  mkdirSync(join(options.folder, 'build-authorities.pem'))
  t.is(await authorities.bundle(), null)
  t.regex(facts.at(-1)!.state, /CANNOT BE WRITTEN/)
})

test('without a store of the system the public authorities are those of Node; with nothing at all builds trust their images', async t => {
  const { make, options } = bundleOf(t, { BUILD_CA_BUNDLE: 'corp.pem' })
  const bare = buildAuthorities({ ...options, stores: [] })
  t.is(await bare.bundle(), null)
  make.authority('corp')
  const names = namesIn(await bare.bundle())
  t.true(names.includes('corp'))
  t.true(names.length > rootCertificates.length * 0.9, String(names.length))
  t.is(await buildAuthorities({ ...options, files: null }).bundle(), null)
})
