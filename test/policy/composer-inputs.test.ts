import { runInNewContext } from 'node:vm'
import test from 'ava'
import fc from 'fast-check'
import type { InstallInputs } from '../../policy/runtimes/runtime.ts'
import { runtimes } from '../../policy/runtimes.ts'

/* What installations by Composer depend on, and what they have left out. */

const { installInputs, dependedOnMore, leftOut } = runtimes.php

const shasum = 'c7184a326533fcdf1b8ee0733e21c713b975575f'
const archive = { type: 'zip', url: 'https://packages.test/one.zip', reference: 'v1', shasum }
const one = {
  name: 'test/one',
  version: '1.0.0',
  source: { type: 'git', url: 'https://git.test/one.git', reference: shasum },
  dist: archive,
  require: { php: '^8.1' },
  type: 'library',
  bin: ['bin/one'],
  autoload: { 'psr-4': { 'One\\': 'src/' }, classmap: ['lib/'] },
}
const set = { name: 'test/set', version: '2.0.0', type: 'metapackage', require: { 'test/one': '^1.0' } }
const lockOf = (packages: readonly unknown[], fields: object = {}) =>
  JSON.stringify({ 'content-hash': 'x', packages, 'packages-dev': [], ...fields })

const manifest = {
  name: 'test/project',
  require: { 'test/one': '^1.0', php: '>=8.1' },
  autoload: { 'psr-4': { 'App\\': 'src/' }, files: ['src/helpers.php'] },
}
const inputs = (texts: Record<string, string | null>): InstallInputs => installInputs!(new Map(Object.entries(texts)))
const usual = { 'composer.json': JSON.stringify(manifest), 'composer.lock': lockOf([one, set]) }
const reasonOf = (texts: Record<string, string | null>) => {
  const found = inputs(texts)
  return 'because' in found ? found.because : null
}
const withFields = (fields: object) =>
  reasonOf({ ...usual, 'composer.json': JSON.stringify({ ...manifest, ...fields }) })
const withPackage = (fields: object) => reasonOf({ ...usual, 'composer.lock': lockOf([set, { ...one, ...fields }]) })

test('an installation by Composer depends on manifest and lock file, or on the manifest alone as its report shows', t => {
  t.deepEqual(inputs(usual), { files: ['composer.json', 'composer.lock'], isPinned: true })
  t.deepEqual(inputs({ ...usual, 'composer.lock': lockOf([]) }), {
    files: ['composer.json', 'composer.lock'],
    isPinned: true,
  })
  const unlocked = { 'composer.json': usual['composer.json'] }
  t.deepEqual(inputs(unlocked), { files: ['composer.json'], isPinned: false, isShownAfter: true })
  for (const text of [null, '', '[]', 'null', '5', '{', '{"require":'])
    t.is(reasonOf({ ...usual, 'composer.json': text }), 'composer.json cannot be read')
})

test('other files that Composer reads rule out the reuse', t => {
  const names = ['vendor', 'auth.json', '.git', '.hg', '.svn', '.fslckout', '_FOSSIL_']
  t.deepEqual(runtimes.php.inputNames, names)
  for (const name of names) {
    t.is(reasonOf({ ...usual, [name]: null }), `${name} is in the folder of the application`)
    t.truthy(reasonOf({ 'composer.json': usual['composer.json'], [name]: '' }), name)
  }
})

test('scripts, and rules by which Composer searches files of the project, rule out the reuse', t => {
  const plain = [
    ...[
      { scripts: {} },
      { autoload: {} },
      { autoload: { classmap: [] } },
      { description: 'x', license: 'MIT', extra: {} },
    ],
    {
      autoload: {
        'psr-0': { '': 'src' },
        'psr-4': { '': 'src' },
        files: ['a.php'],
        'exclude-from-classmap': ['tests'],
      },
    },
    {
      'autoload-dev': { 'psr-4': { 'Tests\\': 'tests/' } },
      'require-dev': { 'test/unit': '*' },
      'prefer-stable': true,
    },
  ]
  for (const fields of plain) t.is(withFields(fields), null, JSON.stringify(fields))
  const events = ['pre-install-cmd', 'post-install-cmd', 'pre-autoload-dump', 'post-autoload-dump', 'init', 'command']
  for (const script of [...events, 'post-package-install', 'pre-operations-exec', 'test'])
    for (const value of ['App\\Task::run', ['@php x.php'], 'phpunit'])
      t.truthy(withFields({ scripts: { [script]: value } }), script)
  const odd = [
    ...[{ scripts: 'x' }, { scripts: ['x'] }, { scripts: null }, { autoload: 'x' }, { autoload: { classmap: 'src' } }],
    ...[
      { autoload: { classmap: ['src/'] } },
      { 'autoload-dev': { classmap: ['tests'] } },
      { autoload: { other: ['x'] } },
    ],
    ...[{ 'include-path': ['lib'] }, { 'target-dir': 'x' }, { 'include-files': ['x'] }, { anything: 1 }, { '': 1 }],
  ]
  for (const fields of odd) t.truthy(withFields(fields), JSON.stringify(fields))
  const own = `{"__proto__":{"scripts":{}},"require":{}}`
  t.truthy(reasonOf({ ...usual, 'composer.json': own }))
})

test('settings of Composer that are not known to read no file rule out the reuse', t => {
  const plain = {
    ...{ platform: { php: '8.3.0' }, 'sort-packages': true, 'process-timeout': 0, 'allow-plugins': { 'a/b': true } },
    ...{ 'preferred-install': 'dist', 'vendor-dir': 'vendor', 'bin-dir': 'vendor/bin', 'optimize-autoloader': false },
    ...{ 'http-basic': { 'x.test': { username: 'u', password: 'p' } }, 'secure-http': false, lock: true },
  }
  t.is(withFields({ config: plain }), null)
  t.is(withFields({ config: {} }), null)
  const odd = [
    ...[{ 'optimize-autoloader': true }, { 'optimize-autoloader': 'false' }, { 'classmap-authoritative': true }],
    ...[{ 'apcu-autoloader': true }, { 'vendor-dir': 'lib' }, { 'vendor-dir': './vendor' }, { 'bin-dir': 'bin' }],
    ...[{ 'preferred-install': 'source' }, { 'preferred-install': { '*': 'source' } }, { lock: false }],
    ...[{ cafile: 'ca.pem' }, { capath: 'x' }, { 'cache-dir': 'cache' }, { 'data-dir': '.' }, { unheard: true }],
    ...[{ 'client-certificate': { 'x.test': { local_cert: 'x.pem' } } }, { 'archive-dir': 'x' }, { '': 1 }],
  ]
  for (const config of odd) t.truthy(withFields({ config: { ...plain, ...config } }), JSON.stringify(config))
  for (const config of ['x', null, 5, ['x']]) t.truthy(withFields({ config }), JSON.stringify(config))
})

test('repositories that may be files of the project rule out the reuse', t => {
  const url = 'https://packages.test'
  const remote = [
    ...[[], {}, [{ type: 'composer', url }], { own: { type: 'vcs', url: `${url}/a.git` } }, { 'packagist.org': false }],
    ...[[{ 'packagist.org': false }], [{ packagist: false }], [{ type: 'git', url, only: ['a/*'], canonical: false }]],
    [{ type: 'package', package: { name: 'a/b', version: '1', dist: archive } }],
  ]
  for (const repositories of remote) t.is(withFields({ repositories }), null, JSON.stringify(repositories))
  const local = [
    ...[[{ type: 'path', url: 'lib/a' }], [{ type: 'path', url }], [{ type: 'artifact', url: 'zips' }]],
    ...[[{ type: 'vcs', url: './a' }], [{ type: 'vcs', url: '/app/a' }], [{ type: 'git', url: 'file:///app/a' }]],
    ...[[{ type: 'composer', url: 'file:///app' }], [{ type: 'composer', url: 'mirror' }], [{ type: 'vcs' }], [{}]],
    ...[[{ type: 'composer', url, options: { ssl: { cafile: 'x' } } }], [{ type: 'unheard', url }], ['x'], [null]],
    ...[[true], 'x', null, 5, [{ type: 'composer', url: { toString: 1 } }], [{ type: 'composer', url: [url] }]],
    [{ type: 'package', url: 'x', package: {} }],
  ]
  for (const repositories of local) t.truthy(withFields({ repositories }), JSON.stringify(repositories))
})

test('a lock file that lists more than archives of packages rules out the reuse', t => {
  const elsewhere = { ...archive, mirrors: [{ url: 'https://mirror.test/%package%.zip', preferred: true }] }
  const plain = [
    { dist: elsewhere },
    { bin: 'bin/one' },
    { type: 'symfony-bundle' },
    { autoload: {} },
    { type: undefined },
  ]
  for (const fields of plain) t.is(withPackage(fields), null, JSON.stringify(fields))
  const odd = [
    ...[{ type: 'composer-plugin' }, { type: 'composer-installer' }, { type: 'Composer-Plugin' }, { type: 5 }],
    ...[
      { dist: undefined },
      { dist: null },
      { dist: { ...archive, type: 'path' } },
      { dist: { ...archive, url: 'a.zip' } },
    ],
    ...[{ dist: { ...archive, url: 'file:///app/a.zip' } }, { dist: { ...archive, url: '/app/a.zip' } }, { dist: 'x' }],
    ...[{ dist: { ...archive, mirrors: [{ url: '/app/%package%' }] } }, { dist: { ...archive, mirrors: 'x' } }],
    ...[{ 'target-dir': '../../..' }, { 'transport-options': { ssl: { local_cert: 'x' } } }, { bin: ['../../../x'] }],
    ...[
      { bin: '../../../x' },
      { bin: 5 },
      { autoload: { classmap: ['../../../src'] } },
      { autoload: { classmap: 'src' } },
    ],
    ...[{ autoload: { classmap: [['../../../src']] } }, { autoload: { classmap: { a: '../../../src' } } }],
    ...[
      { name: 'test/set' },
      { name: 'TEST/SET' },
      { name: '../../x' },
      { name: 'x' },
      { name: 5 },
      { name: undefined },
    ],
  ]
  for (const fields of odd) t.truthy(withPackage(fields), JSON.stringify(fields))
  const locks = [
    ...[null, '', '{}', '[]', '{"packages":null}', '{"packages":{}}', '{"packages":{"0":{}}}', '{"packages":5}'],
    ...['{"packages":[null]}', '{"packages":["x"]}', '{"packages":[[]]}', '{"packages":[{}]}', '<<<<<<< HEAD\n{}'],
  ]
  for (const lock of locks)
    t.is(reasonOf({ ...usual, 'composer.lock': lock }), 'composer.lock cannot be read', lock ?? '')
})

test('without the digest of each package a result of Composer depends on the time', t => {
  const isPinned = (fields: object) => {
    const found = inputs({ ...usual, 'composer.lock': lockOf([set, { ...one, ...fields }]) })
    return 'isPinned' in found && found.isPinned
  }
  t.true(isPinned({}))
  t.true(isPinned({ dist: { ...archive, reference: null } }), 'the digest is that of the archive')
  for (const odd of [
    '',
    undefined,
    null,
    5,
    shasum.toUpperCase(),
    shasum.slice(1),
    `${shasum}a`,
    `${shasum}\n`,
    [shasum],
  ])
    t.false(isPinned({ dist: { ...archive, shasum: odd } }), String(odd))
})

test('a changed or additional byte in manifest or lock file makes another input, or none', t => {
  fc.assert(
    fc.property(fc.constantFrom('composer.json', 'composer.lock'), fc.nat(), fc.nat(255), (name, at, byte) => {
      const text = usual[name as keyof typeof usual]
      const place = at % text.length
      const other = `${text.slice(0, place)}${String.fromCharCode(byte)}${text.slice(place + 1)}`
      const found = inputs({ ...usual, [name]: other })
      // Whatever it says now, both files are in the key.
      return 'because' in found || found.files.join() === 'composer.json,composer.lock'
    }),
    { numRuns: 1000 },
  )
  t.pass()
})

const installedOf = (packages: readonly object[]) => JSON.stringify({ packages, dev: false, 'dev-package-names': [] })
const made = [{ ...one, 'installation-source': 'dist', 'install-path': '../test/one' }, set]

test('without a lock file a package that may have read more, as the report lists it, needs all files', t => {
  const more = (packages: readonly object[]) => dependedOnMore!(installedOf(packages))
  t.is(more(made), null)
  t.regex(more([...made, { ...one, name: 'a/b', type: 'composer-plugin' }]) ?? '', /a\/b is a plugin/)
  t.truthy(more([{ ...one, dist: { type: 'path', url: 'lib/a' } }]))
  for (const report of [null, '', '[]', '{}', JSON.stringify(made)])
    t.is(dependedOnMore!(report), 'the step has left no report')
})

test('a package that Composer has not installed, or took from its repository, makes a result incomplete', t => {
  const left = (packages: readonly object[], lock: string | null = usual['composer.lock']) =>
    leftOut!(new Map(), lock, installedOf(packages), 'x64')
  t.is(left(made), null)
  t.is(leftOut!(new Map(Object.entries(usual)), null, installedOf(made), 'x64'), null)
  const missing = 'the package test/one is missing'
  t.is(left([set]), missing)
  t.is(left([{ ...made[0], version: '1.0.1' }, set]), missing)
  t.is(left([made[0]!]), 'the package test/set is missing')
  for (const source of ['source', undefined, null, { toString: 1 }])
    t.is(
      left([{ ...made[0], 'installation-source': source }, set]),
      'the package test/one was not installed from its archive',
    )
  const none = 'the step has left no list of what it has installed'
  for (const odd of [null, '', '{}', '{"packages":{}}', '{"packages":[5]}', '{"packages":[{"name":{"toString":1}}]}']) {
    t.is(leftOut!(new Map(Object.entries(usual)), null, odd, 'x64'), none, String(odd))
    t.is(left(made, odd), none, String(odd))
  }
})

/** Ends work that hangs, as it would hang the host. */
const ended = <T>(work: () => T): T => runInNewContext('work()', { work }, { timeout: 20_000 })

test('files for Composer that are deep, long or odd are read at once, and their reasons are short', t => {
  const bytes = 512 * 1024
  const deep = (open: string, close: string, count = bytes / 2) =>
    open.repeat(count / open.length) + close.repeat(count / open.length)
  const long = 'a'.repeat(bytes)
  const texts = [
    ...[deep('[', ']'), '['.repeat(bytes), deep('{"a":', '}', bytes / 3), `{"config":${deep('[', ']', bytes / 4)}}`],
    ...[`{"scripts":${deep('[', ']', bytes / 4)}}`, `{"repositories":[${deep('[', ']', bytes / 4)}]}`],
    ...[`{"packages":[${'{},'.repeat(bytes / 4)}{}]}`, `{"packages":[${'[],'.repeat(bytes / 4)}[]]}`],
    `{"packages":[${JSON.stringify(one)},{"name":"a/b","bin":${deep('[', ']', bytes / 4)}}]}`,
    ...['a', '.', '-', '/', 'a/', 'http://', '\\\\'].flatMap(part => {
      const text = part.repeat(Math.floor(bytes / part.length))
      const dist = `{"type":"zip","url":"https://${text}"}`
      return [
        `{"packages":[{"name":"a/${text}"}]}`,
        `{"packages":[{"name":"a/b","dist":${dist}}]}`,
        `{"repositories":[{"type":"vcs","url":"https://${text}"}]}`,
        `{"${text}":1}`,
        `{"config":{"${text}":1}}`,
        `{"autoload":{"${text}":[1]}}`,
      ]
    }),
  ]
  for (const text of texts)
    for (const name of ['composer.json', 'composer.lock']) {
      const found = ended(() => inputs({ ...usual, [name]: text }))
      const words = 'because' in found ? found.because : ''
      t.true(words.length > 0 && words.length <= 300, `${name} ${text.slice(0, 60)} ${words}`)
      ended(() => leftOut!(new Map(), text, text, 'x64'))
      ended(() => dependedOnMore!(text))
    }
  const many = Array.from({ length: 20_000 }, (_, n) => ({ ...one, name: `a/b${n}` }))
  t.deepEqual(
    ended(() => inputs({ ...usual, 'composer.lock': lockOf(many) })),
    inputs(usual),
  )
  const list = installedOf(many.map(each => ({ ...each, 'installation-source': 'dist' })))
  t.is(
    ended(() => leftOut!(new Map(), lockOf(many), list, 'x64')),
    null,
  )
  t.is(reasonOf({ ...usual, 'composer.json': `{"${long}":1}` })?.length, 300)
})

test('fields that a file names twice count as Composer reads them, the last one', t => {
  t.truthy(reasonOf({ ...usual, 'composer.json': '{"scripts":{},"scripts":{"init":"x"}}' }))
  t.is(reasonOf({ ...usual, 'composer.json': '{"scripts":{"init":"x"},"scripts":{}}' }), null)
})
