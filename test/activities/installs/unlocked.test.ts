import { readdir } from 'node:fs/promises'
import test from 'ava'
import type { ReleaseFolders } from '../../../activities/releases/files.ts'
import { type Files, installingHosts, preparedOf, textIn } from '../../kit/hosts/installs.ts'

const { hostOf } = installingHosts()

/** A registry in the build container, which lists and serves packages; those without an archive cannot be downloaded. */
const registry = `
const { execFileSync } = require('node:child_process')
const { mkdirSync, readFileSync, writeFileSync } = require('node:fs')
const packages = {
  plain: {},
  nosy: { scripts: { postinstall: 'ls -A ../.. > seen' } },
  picky: { scripts: { preinstall: 'test -e ../../schema' } },
  broken: { isBroken: true },
  // As one that is for another system, and what only that requires.
  split: { optionalDependencies: { 'for-aix': '1.0.0' } },
  'for-aix': { os: ['aix'], dependencies: { inner: '1.0.0' } },
  inner: {},
}
for (const [name, { isBroken, ...fields }] of Object.entries(packages)) {
  if (isBroken) continue
  mkdirSync('/tmp/registry/' + name + '/package', { recursive: true })
  writeFileSync('/tmp/registry/' + name + '/package/package.json', JSON.stringify({ name, version: '1.0.0', ...fields }))
  execFileSync('tar', ['-czf', '/tmp/registry/' + name + '.tgz', '-C', '/tmp/registry/' + name, 'package'])
}
require('node:http').createServer((request, answer) => {
  const name = request.url.slice(1)
  if (name.endsWith('.tgz') && !packages[name.slice(0, -4)]?.isBroken) return answer.end(readFileSync('/tmp/registry/' + name))
  if (!packages[name]) return answer.writeHead(404).end('{}')
  const { isBroken, ...fields } = packages[name]
  const version = { name, version: '1.0.0', ...fields, hasInstallScript: fields.scripts !== undefined,
    dist: { tarball: 'http://127.0.0.1:4873/' + name + '.tgz' } }
  answer.end(JSON.stringify({ name, 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': version } }))
}).listen(4873, () => writeFileSync('/tmp/ready', ''))
`
/** The planned step, with that registry. */
const install =
  `node -e '${registry.replaceAll("'", `'\\''`)}' & while [ ! -e /tmp/ready ]; do sleep 0.1; done; echo "runs among: $(ls -A | tr '\\n' ' ')"; ` +
  'npm install --omit=dev --no-audit --no-fund --registry=http://127.0.0.1:4873 --fetch-retries=0 && mkdir -p node_modules; ' +
  'code=$?; kill $!; exit $code'

const filesOf = (manifest: object): Files => ({
  'index.js': '',
  schema: '',
  'package.json': JSON.stringify(manifest),
})
const lockOf = ({ folders }: { folders: ReleaseFolders }) => textIn(folders.source, 'package-lock.json')
const runs = (log: string) => [...log.matchAll(/^runs among: (.*)$/gm)].map(([, names]) => names!.trim())

test('without a lock file a result is used again for a day, when npm reports no package that may have read more', async t => {
  t.timeout(170_000)
  const { app, installs } = await hostOf(t)
  const one = await app()
  const files = filesOf({ dependencies: { plain: '^1.0.0', split: '1' } })
  const first = await one.push(files, {}, { install })
  t.deepEqual(runs(first.log), ['package.json'])
  t.true((await readdir(first.folders.dependencies)).includes('split'))
  const { installed } = await preparedOf(one.volume, first.release.number)
  t.false(installed?.isPinned)
  t.is(await lockOf(first), null, 'the application gets no file that it did not bring')
  const next = await one.push({ ...files, 'index.js': 'x' }, {}, { install })
  t.regex(next.words, /^reused from release 2,/)
  await installs.settled()
  const other = await (await app(one.owner_id)).push(files, {}, { install })
  t.regex(other.words, /^reused from the cache of the account/)
  const changed = await one.push(filesOf({ dependencies: { plain: '1.0.0' } }), {}, { install })
  t.is(changed.words, 'installed anew: since release 2 changed package.json')
})

test('without a lock file a package with a script of its own is installed again among all files, and so at once the next time', async t => {
  t.timeout(170_000)
  const { app } = await hostOf(t)
  const { push, volume } = await app()
  const files = filesOf({ dependencies: { nosy: '1' } })
  const because = 'the package nosy runs a script that may read other files'
  const first = await push(files, {}, { install })
  t.is(first.words, `installed, and not for reuse: ${because}`)
  t.deepEqual(runs(first.log), ['package.json', 'index.js package.json schema'])
  t.regex((await textIn(first.folders.dependencies, 'nosy/seen')) ?? '', /schema/)
  t.is(await textIn(first.folders.install, 'package.json'), null)
  t.is(await lockOf(first), null, 'a later manifest would not fit it')
  const prepared = await preparedOf(volume, first.release.number)
  t.is(prepared.installed, undefined)
  t.is(prepared.needsMore?.because, because)

  for (const code of ['one', 'two']) {
    const next = await push({ ...files, 'index.js': code }, {}, { install })
    t.is(next.words, `installed, and not for reuse: ${because}`)
    t.deepEqual(runs(next.log), ['index.js package.json schema'])
    t.is(await lockOf(next), null)
    t.regex((await textIn(next.folders.dependencies, 'nosy/seen')) ?? '', /schema/)
  }
  const without = await push(filesOf({ dependencies: { plain: '1' } }), {}, { install })
  t.deepEqual(runs(without.log), ['package.json'])
})

test('without a lock file a commit of any file installs again where a package has read the others, and keeps the result where none has', async t => {
  t.timeout(170_000)
  const { app } = await hostOf(t)
  const upload = { source: { kind: 'archive', segmentId: 'a' } } as const
  for (const [name, isRead] of [
    ['nosy', true],
    ['plain', false],
  ] as const) {
    const { push, place } = await app()
    const files = filesOf({ dependencies: { [name]: '1' } })
    await push(files, {}, { install })
    await place(files)
    for (const file of ['one', 'two']) {
      const { folders, log, installs } = await push({ [file]: '' }, upload, { install })
      t.is(installs, isRead)
      t.deepEqual(runs(log), isRead ? [['index.js', file, 'package.json', 'schema'].sort().join(' ')] : [])
      t.is((await textIn(folders.dependencies, 'nosy/seen'))?.includes(file) ?? false, isRead)
    }
  }
})

test('without a lock file a step that fails alone runs again among all files, and one that fails there too fails', async t => {
  t.timeout(170_000)
  const { app } = await hostOf(t)
  const { push } = await app()
  const picky = await push(filesOf({ dependencies: { picky: '1' } }), {}, { install })
  t.is(picky.words, 'installed, and not for reuse: it failed without the other files')
  t.deepEqual(runs(picky.log), ['package.json', 'index.js package.json schema'])
  t.true((await readdir(picky.folders.dependencies)).includes('picky'))
  await t.throwsAsync(push(filesOf({ dependencies: { missing: '1' } }), {}, { install }), { message: /exit code 1/ })
})

test('without a lock file an optional package that npm could not have makes the result its own release’s only', async t => {
  t.timeout(170_000)
  const { app } = await hostOf(t)
  const { push } = await app()
  for (const name of ['broken', 'missing']) {
    const files = filesOf({ dependencies: { plain: '1' }, optionalDependencies: { [name]: '1' } })
    const first = await push(files, {}, { install })
    t.regex(
      first.words,
      new RegExp(`^installed, and not for reuse: the optional package (node_modules/)?${name} is missing`),
    )
    t.true((await push(files, {}, { install })).installs)
  }
})
