import { runInNewContext } from 'node:vm'
import test from 'ava'
import { type Language, runtimes } from '../../policy/runtimes.ts'

const inputs = (language: Language, files: Record<string, string | null>) =>
  runtimes[language].installInputs!(new Map(Object.entries(files)))

const lockOf = (packages: Record<string, unknown>, changes: object = {}) =>
  JSON.stringify({ lockfileVersion: 3, packages: { '': {}, ...packages }, ...changes })

const usual = { 'package.json': '{"dependencies":{"a":"^1.0.0"}}', 'package-lock.json': lockOf({}) }

/** What npm needs in addition to manifest and lock file, in words; null = nothing. */
const reasonOf = (files: Record<string, string | null>, language: Language = 'javascript') => {
  const result = inputs(language, files)
  return 'because' in result ? result.because : null
}

test('an installation by npm depends on manifest, lock file and settings', t => {
  t.deepEqual(inputs('javascript', usual), { files: ['package.json', 'package-lock.json'], isPinned: true })
  t.deepEqual(inputs('typescript', { ...usual, '.npmrc': 'registry=https://registry.test/' }), {
    files: ['package.json', 'package-lock.json', '.npmrc'],
    isPinned: true,
  })
  const both = { ...usual, 'npm-shrinkwrap.json': lockOf({}) }
  t.deepEqual(inputs('javascript', both), { files: ['package.json', 'npm-shrinkwrap.json'], isPinned: true })
})

test('a source of a package that may be a file of the project rules out the reuse', t => {
  const from = (source: unknown, list = 'dependencies') =>
    reasonOf({ ...usual, 'package.json': JSON.stringify({ [list]: { a: source } }) })
  const outside = [
    ...['1.2.3', '^1', '~1.2', '>=1 <2 || 3.x', '*', '', 'latest', '1 - 2', 'npm:b@^1', 'npm:@s/b@1.x', '1.0.0-rc.1+x'],
    ...['https://x.test/a.tgz', 'git+https://x.test/a.git#v1', 'github:a/b', 'git+ssh://git@x.test/a.git'],
  ]
  for (const source of outside) t.is(from(source), null, source)
  const inside = [
    ...['file:a', 'FILE:a', 'link:../a', 'portal:a', 'workspace:*', './a', '../a', '/a', '~/a', 'a/b', 'C:\\a', '.\\a'],
    ...['a.tgz', 'a.tar.gz', 'git+file:///app/a', 'npm:file:a', '.', '..', 5, null, ['./a'], { b: 'file:a' }],
  ]
  for (const list of ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies', 'overrides'])
    for (const source of inside) t.truthy(from(source, list), `${list}: ${JSON.stringify(source)}`)
  t.is(from({ '.': '2.0.0', b: { c: '$a' } }, 'overrides'), null)
})

test('an archive in the project is one of the files that npm depends on, where the lock file takes its package from it', t => {
  const of = (source: string, resolved: string, list = 'dependencies', more: object = {}) =>
    inputs('javascript', {
      'package.json': JSON.stringify({ [list]: { a: source }, ...more }),
      'package-lock.json': lockOf({ 'node_modules/a': { resolved, integrity: 'sha512-x' } }),
    })
  for (const source of ['file:vendor/a-1.tgz', 'file:./vendor/a-1.tgz', './vendor/a-1.tgz'])
    t.deepEqual(of(source, 'file:vendor/a-1.tgz'), {
      files: ['package.json', 'package-lock.json', 'vendor/a-1.tgz'],
      isPinned: true,
    })
  const many = (paths: readonly string[], sourcesOf = (path: string) => [`file:${path}`], listed = paths) => {
    const sources = paths.flatMap(sourcesOf).map((source, n) => [`p${n}`, source])
    const entries = listed.map((path, n) => [`node_modules/p${n}`, { resolved: `file:${path}`, integrity: 'sha512-x' }])
    return inputs('javascript', {
      'package.json': JSON.stringify({ dependencies: Object.fromEntries(sources) }),
      'package-lock.json': lockOf(Object.fromEntries(entries)),
    })
  }
  const numbered = (count: number) => Array.from({ length: count }, (_, n) => `vendor/${n}.tgz`)
  const all = numbered(50)
  t.deepEqual(many(all), { files: ['package.json', 'package-lock.json', ...all], isPinned: true })
  const thrice = many(all, path => [`file:${path}`, `file:./${path}`, `./${path}`])
  t.deepEqual(thrice, many(all), 'each archive once, however often it is named')
  t.deepEqual(many(numbered(51)), { because: 'more than 50 packages are archives of the application' })
  t.deepEqual(many(all, undefined, numbered(49)), { because: 'package-lock.json does not list vendor/49.tgz' })
  t.true('because' in many(numbered(20_000), undefined, []))
  const deep = (length: number) =>
    `${'a/'.repeat(4)}${'b'.repeat(200)}/${'b'.repeat(200)}/${'b'.repeat(200)}/${'b'.repeat(200)}/${'c'.repeat(length - 816)}.tgz`
  t.is(deep(1000).length, 1000)
  t.true('files' in many([deep(1000)]))
  t.true('because' in many([deep(1001)]))
  const others: [string, string, string?, object?][] = [
    ['file:vendor/a-1.tgz', 'file:vendor/b-1.tgz'],
    ['file:vendor/a-1.tgz', 'file:./vendor/a-1.tgz'],
    ['file:vendor/a-1.tgz', 'file:vendor/a-1.tgz', 'peerDependencies'],
    ['file:vendor/a-1.tgz', 'file:vendor/a-1.tgz', 'overrides'],
    ['file:vendor/a-1.tgz', 'file:vendor/a-1.tgz', 'dependencies', { scripts: { prepare: 'true' } }],
    ['file:../a-1.tgz', 'file:../a-1.tgz'],
    ['file:a/../../a-1.tgz', 'file:a/../../a-1.tgz'],
    ['file:/app/a-1.tgz', 'file:/app/a-1.tgz'],
    ['file:.hidden/a-1.tgz', 'file:.hidden/a-1.tgz'],
    ['file:node_modules/a-1.tgz', 'file:node_modules/a-1.tgz'],
    ['file:vendor/node_modules/a-1.tgz', 'file:vendor/node_modules/a-1.tgz'],
    ['file:vendor/a', 'file:vendor/a'],
    ['a-1.tgz', 'file:a-1.tgz'],
    ['1.0.0', 'file:vendor/a-1.tgz'],
  ]
  for (const each of others) t.true('because' in of(...each), each.join(' '))
  const unlocked = { 'package.json': JSON.stringify({ dependencies: { a: 'file:vendor/a-1.tgz' } }) }
  t.truthy(reasonOf(unlocked))
  t.truthy(reasonOf({ ...unlocked, 'yarn.lock': '# yarn lockfile v1\n' }))
})

test('scripts of the project, workspaces and files that steer package managers rule out the reuse', t => {
  const manifest = (fields: object) => reasonOf({ ...usual, 'package.json': JSON.stringify(fields) })
  for (const script of [
    'preinstall',
    'install',
    'postinstall',
    'prepare',
    'postprepare',
    'prepublish',
    'dependencies',
    'postdependencies',
  ])
    t.regex(manifest({ scripts: { [script]: 'true' } }) ?? '', new RegExp(`"${script}"`))
  t.is(manifest({ scripts: { build: 'x', start: 'y', test: 'z' } }), null)
  t.is(manifest({ workspaces: [] }), null)
  for (const odd of [
    { workspaces: ['a'] },
    { workspaces: 'a' },
    { scripts: 'x' },
    { dependencies: 5 },
    { overrides: 'file:x' },
  ])
    t.truthy(manifest(odd), JSON.stringify(odd))
  for (const text of ['', '[]', 'null', '5', '{', '{"dependencies":'])
    t.is(reasonOf({ ...usual, 'package.json': text }), 'package.json cannot be read')
  t.is(reasonOf({ ...usual, 'package.json': null }), 'package.json cannot be read')
  t.is(reasonOf({ ...usual, node_modules: null }), null, 'npm ci removes it first')
  const unlocked = { 'package.json': usual['package.json'] }
  t.is(reasonOf(unlocked), null)
  t.regex(reasonOf({ ...unlocked, node_modules: null }) ?? '', /^node_modules is in the folder/)
  const steering = ['binding.gyp', '.yarnrc', '.yarnrc.yml', 'pnpm-workspace.yaml', '.pnpmfile.cjs']
  for (const name of steering) t.regex(reasonOf({ ...usual, [name]: null }) ?? '', /is in the folder/, name)
})

test('without a lock file only the result of npm shows whether it depended on more', t => {
  const { 'package-lock.json': _, ...unlocked } = usual
  t.deepEqual(inputs('javascript', unlocked), { files: ['package.json'], isPinned: false, isShownAfter: true })
  t.deepEqual(inputs('typescript', { ...unlocked, '.npmrc': 'fund=false' }), {
    files: ['package.json', '.npmrc'],
    isPinned: false,
    isShownAfter: true,
  })
  t.is(reasonOf({ 'package.json': '' }), 'package.json cannot be read')
  t.truthy(reasonOf({ 'package.json': '{"dependencies":{"a":"./a"}}' }))
  t.truthy(reasonOf({ ...unlocked, '.npmrc': 'cafile=./ca.pem' }))
  const { dependedOnMore } = runtimes.javascript
  const more = (packages: object) => dependedOnMore!(JSON.stringify({ lockfileVersion: 3, packages }))
  const registry = { resolved: 'https://registry.test/a.tgz', integrity: 'sha512-x' }
  t.is(more({ 'node_modules/a': registry, 'node_modules/esbuild': { ...registry, hasInstallScript: true } }), null)
  t.regex(more({ 'node_modules/prisma': { ...registry, hasInstallScript: true } }) ?? '', /prisma runs a script/)
  t.truthy(more({ 'node_modules/a': { resolved: 'a', link: true } }))
  t.truthy(more({ 'node_modules/a': { resolved: 'file:a.tgz' } }))
  for (const report of [null, '', '[]', '{}']) t.truthy(dependedOnMore!(report), String(report))
})

test('a lock file of npm that cannot be read, or does not name packages with scripts, rules out the reuse', t => {
  const locked = (lock: string | null) => reasonOf({ ...usual, 'package-lock.json': lock })
  for (const lock of [
    null,
    '',
    '{}',
    lockOf({}, { lockfileVersion: 1 }),
    lockOf({}, { packages: null }),
    lockOf({ a: null }),
  ])
    t.truthy(locked(lock), String(lock))
})

test('a lock file with folders of the project, or with scripts that may read it, rules out the reuse', t => {
  const of = (path: string, entry: object) =>
    inputs('javascript', { ...usual, 'package-lock.json': lockOf({ [path]: entry }) })
  const locked = (path: string, entry: object) => {
    const result = of(path, entry)
    return 'because' in result ? result.because : null
  }
  const registry = { resolved: 'https://registry.test/a.tgz', integrity: 'sha512-x' }
  t.is(locked('node_modules/a', registry), null)
  t.is(locked('node_modules/a/node_modules/b', { inBundle: true }), null)
  t.is(locked('node_modules/esbuild', { ...registry, hasInstallScript: true }), null)
  t.is(locked('node_modules/a/node_modules/@swc/core', { ...registry, hasInstallScript: true }), null)
  t.regex(
    locked('node_modules/@prisma/client', { ...registry, hasInstallScript: true }) ?? '',
    /@prisma\/client runs a script/,
  )
  const alias = { ...registry, name: 'other', hasInstallScript: true }
  t.regex(locked('node_modules/esbuild', alias) ?? '', /other runs a script/)
  t.truthy(locked('packages/a', { name: 'a' }))
  t.truthy(locked('node_modules/a', { resolved: 'packages/a', link: true }))
  t.truthy(locked('node_modules/a', { resolved: 'file:a.tgz' }))
  t.truthy(locked('node_modules/a', { resolved: 5 }))
  t.truthy(locked('../a', {}))
})

test('a package without a digest in the lock file makes a result depend on the time', t => {
  const isPinned = (entry: object) => {
    const result = inputs('javascript', { ...usual, 'package-lock.json': lockOf({ 'node_modules/a': entry }) })
    return 'isPinned' in result && result.isPinned
  }
  const resolved = 'https://registry.test/a.tgz'
  t.true(isPinned({ resolved, integrity: 'sha512-x' }))
  t.true(isPinned({ inBundle: true }))
  const unpinned = [
    ...[{ resolved }, {}, { resolved, inBundle: true }, { resolved, integrity: '' }, { resolved, integrity: 5 }],
    ...[{ resolved: 'git+https://x.test/a.git#v1' }, { resolved, integrity: 'x' }],
  ]
  for (const entry of unpinned) t.false(isPinned(entry), JSON.stringify(entry))
})

test('settings of npm that may name a file rule out the reuse', t => {
  const set = (text: string | null) => reasonOf({ ...usual, '.npmrc': text })
  const plain =
    '; x\n# y\n\nregistry = https://x.test\n@s:registry=https://y.test\r\n//x.test/:_authToken=token\nlegacy-peer-deps=true\n'
  t.is(set(plain), null)
  for (const line of [
    'cafile=./ca.pem',
    'script-shell=./x',
    'node-options=--require ./x',
    'prefix=.',
    'userconfig=x',
    'workspaces=true',
  ])
    t.truthy(set(`${plain}${line}`), line)
  t.truthy(set(null))
})

/** Ends work that hangs, as it would hang the host. */
const ended = <T>(work: () => T): T => runInNewContext('work()', { work }, { timeout: 20_000 })

const long = 4 * 1024 * 1024
const filled = (part: string, length: number, end = '') => part.repeat(Math.floor(length / part.length)) + end

test('lines that a pattern could search again and again are read at once', t => {
  const parts = [
    ...[' >=1', ' >=1,', ' ', '\t', '\\', '#', ' #', '-', '.', 'a', '[', ' [', '(', ';', ' ;', ',', '@', '"', '\u00a0'],
    ...[
      ' --hash=sha256:a',
      ' --hash sha256:a',
      '--hash',
      '.tar',
      '.tar.',
      '\u2028',
      '\v',
      '\n',
      '\r',
      '\\\n',
      'a\\\n',
      ' #\\\n',
    ],
    ...[':_auth', ':_auth ', 'registry', '=', '//', '/'],
  ]
  // A whole file of one kind takes a while to make, so not with each start and end.
  for (const part of parts)
    for (const [start, end] of [
      ['a', ' $'],
      ['a==1', '!'],
      ['', '$'],
      ['//', '\u2028'],
      [' ', 'x'],
      ['npm:', '@'],
    ] as const)
      for (const length of start === 'a' && end === ' $' && ' \\#\n'.includes(part) ? [49_000, long - 100] : [49_000]) {
        const text = start + filled(part, length, end)
        const manifest = JSON.stringify({ dependencies: { a: text }, scripts: { [text]: '' }, [text]: text })
        const lock = lockOf({
          [`node_modules/${text}`]: { resolved: `https:${text}`, hasInstallScript: true },
          [text]: {},
        })
        const name = JSON.stringify([start, part, end, length])
        ended(() => inputs('python', { 'requirements.txt': text }))
        ended(() => runtimes.python.requestsNothing!(text, []))
        ended(() => runtimes.javascript.requestsNothing!(manifest, []))
        ended(() => inputs('javascript', { ...usual, '.npmrc': text }))
        ended(() => inputs('javascript', { ...usual, 'package.json': manifest }))
        const result = ended(() => inputs('javascript', { ...usual, 'package-lock.json': lock }))
        t.true('because' in result && result.because.length <= 300, name)
      }
  const lines = filled(`a${filled(' --hash=sha256:a', 40_000)} $\n`, long)
  t.true('because' in ended(() => inputs('python', { 'requirements.txt': lines })))
  const many = filled('a==1 --hash=sha256:a\n', long)
  t.true('files' in ended(() => inputs('python', { 'requirements.txt': many })))
})

test('reasons are short, whatever they quote', t => {
  const reasons = [
    reasonOf({ 'requirements.txt': `flask @ ${'x'.repeat(40_000)}` }, 'python'),
    reasonOf({ ...usual, 'package-lock.json': lockOf({ ['x'.repeat(4_000_000)]: {} }) }),
    reasonOf({ ...usual, 'package.json': JSON.stringify({ dependencies: { ['x'.repeat(1000)]: 5 } }) }),
  ]
  for (const reason of reasons) t.is(reason?.length, 300)
})

test('an installation by pip depends on requirements that name no file', t => {
  const of = (text: string) => inputs('python', { 'requirements.txt': text })
  const unpinned = { files: ['requirements.txt'], isPinned: false }
  const pinned = { files: ['requirements.txt'], isPinned: true }
  const hash = `--hash=sha256:${'a'.repeat(64)}`
  const plain =
    'flask\nflask[async, dotenv]>=2,<3 ; python_version < "3"\n# x\nB.c_d-e==1.0 # y\n--pre\n-i https://x.test/simple\n'
  t.deepEqual(of(plain), unpinned)
  t.deepEqual(of('flask==3.0.0'), unpinned, 'what Flask itself requires is of any version')
  const binary = '--only-binary :all:\n'
  t.deepEqual(of(`flask==3.0.0 ${hash}`), unpinned, 'what builds it is of any version')
  t.deepEqual(of(`${binary}--no-binary=flask\nflask==3.0.0 ${hash}`), unpinned)
  t.deepEqual(of(`${binary}flask==3.0.0 ${hash}`), pinned)
  t.deepEqual(of(`${binary}flask==3.0.0 \\\n    ${hash} \\\n    ${hash}\r\nwerkzeug===3.0.1 ${hash}\n`), pinned)
  t.deepEqual(of(`${binary}flask==3.* ${hash}`), unpinned)
  t.deepEqual(of(`${binary}flask>=3 ${hash}`), unpinned)
  const files = [
    ...[
      '-r other.txt',
      '--requirement=other.txt',
      '-c c.txt',
      '-e .',
      '-e git+https://x.test/a',
      '.',
      './a',
      '../a',
      'a/b',
    ],
    ...[
      'file:a',
      'flask @ file:///app/a',
      'flask @ ./a',
      'a.whl',
      'a-1.0.tar.gz',
      'a.zip',
      '-f wheels',
      '--find-links wheels',
    ],
    ...[
      '-i ./simple',
      '-ifile:///x',
      '--index-url=simple',
      '--no-index --find-links=x',
      '\\\n-r other.txt',
      'flask \\\n-r x',
    ],
    ...['# a \\\n-r other.txt', '$' + '{X}', `flask${' '.repeat(30_000)}-r x`, `${'a'.repeat(60_000)}!`],
  ]
  for (const line of files) t.true('because' in of(`flask\n${line}\nb`), line.slice(0, 40))
  t.true('because' in inputs('python', { 'requirements.txt': null }))
})

test('a language that builds from the sources has no reuse', t => {
  for (const language of ['go', 'rust', 'java', 'dotnet', 'elixir', 'ruby'] as const)
    t.is(runtimes[language].installInputs, undefined, language)
})
