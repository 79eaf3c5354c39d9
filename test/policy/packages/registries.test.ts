import test from 'ava'
import { packageCacheFact } from '../../../policy/packages/cache-facts.ts'
import { packageCacheMb } from '../../../policy/packages/cache-rules.ts'
import { registryFileNames, registryFor } from '../../../policy/packages/project-files.ts'
import { mayBeElsewhere, namedRegistries, packageManagers, registryUrl } from '../../../policy/packages/registries.ts'
import { type Language, languages } from '../../../policy/runtimes.ts'

const decided = (language: Language, files: Record<string, string | null>) =>
  registryFor(language, new Map(Object.entries(files)))

test('a project of Node uses the cache unless one of its files may name a registry', t => {
  for (const language of ['javascript', 'typescript'] as const) {
    t.deepEqual(decided(language, {}), { kind: 'npm' })
    t.deepEqual(decided(language, { '.npmrc': 'fund=false\n# registry=x\r\n; x\n\nlegacy-peer-deps = true' }), {
      kind: 'npm',
    })
    t.deepEqual(decided(language, { 'pnpm-workspace.yaml': 'packages:\n  - a' }), { kind: 'npm' })
  }
  const named: [string, string | null][] = [
    ['.npmrc', 'registry=https://mirror.test/'],
    ['.npmrc', 'fund=false\n  REGISTRY = https://mirror.test/'],
    ['.npmrc', '@own:registry=https://mirror.test/'],
    ['.npmrc', '//mirror.test/:_authToken=x'],
    ['.npmrc', '_auth=x'],
    ['.npmrc', 'userconfig=other'],
    ['.npmrc', 'proxy=http://mirror.test'],
    ['.npmrc', 'replace-registry-host=never'],
    ['.npmrc', `fund=${'x'.repeat(2000)}`],
    ['.npmrc', null],
    ['.yarnrc', ''],
    ['.yarnrc.yml', 'npmRegistryServer: https://mirror.test'],
    ['pnpm-workspace.yaml', 'registries:\n  default: https://mirror.test'],
    ['pnpm-workspace.yaml', null],
  ]
  for (const [name, text] of named) t.deepEqual(decided('javascript', { [name]: text }), { named: name }, text ?? '')
})

test('a project of Python uses the cache unless one of its files may name an index', t => {
  const plain = [
    'tiny==1.0 \\\n    --hash=sha256:abc',
    '# -i https://mirror.test\ntiny>=1',
    '--only-binary :all:\n--require-hashes\n--pre\n--prefer-binary\n--no-binary=a\ntiny',
    'tiny @ https://user:secret@files.test/tiny.whl',
  ]
  for (const text of plain) t.deepEqual(decided('python', { 'requirements.txt': text }), { kind: 'pip' }, text)
  const named = [
    '-i https://mirror.test\ntiny',
    'tiny\n  --index-url=https://mirror.test',
    'tiny\r--extra-index-url https://mirror.test',
    '--find-links x',
    '-f x',
    '--trusted-host mirror.test',
    '--no-index',
    '-r other.txt',
    '-c other.txt',
    '--hashes x',
    '-e .',
    'tiny\u2028-i https://mirror.test',
  ]
  for (const text of named)
    t.deepEqual(decided('python', { 'requirements.txt': text }), { named: 'requirements.txt' }, text)
  t.deepEqual(decided('python', { 'requirements.txt': null }), { named: 'requirements.txt' })
  t.deepEqual(decided('python', { 'requirements.txt': 'tiny', 'pip.conf': '' }), { named: 'pip.conf' })
})

test('a project of Go always uses the cache: none of its files names a module proxy', t => {
  t.deepEqual(decided('go', {}), { kind: 'go' })
  t.deepEqual(registryFileNames('go'), [])
})

test('a project of Rust uses the cache unless it has settings of cargo', t => {
  t.deepEqual(decided('rust', {}), { kind: 'cargo' })
  for (const text of ['', null]) t.deepEqual(decided('rust', { '.cargo': text }), { named: '.cargo' })
})

test('a project of Ruby always uses the cache, which stands in for the usual source alone', t => {
  t.deepEqual(decided('ruby', {}), { kind: 'bundler' })
  t.deepEqual(registryFileNames('ruby'), [])
})

test('other languages download their packages themselves', t => {
  const cached: readonly Language[] = ['javascript', 'typescript', 'python', 'go', 'rust', 'java', 'ruby']
  for (const language of languages.filter(one => !cached.includes(one))) {
    t.is(decided(language, {}), null)
    t.deepEqual(registryFileNames(language), [])
  }
})

test('an image with credentials, scopes or further indexes does without the cache', t => {
  const { npm, pip, go, cargo, maven, bundler } = packageManagers
  t.deepEqual(npm.registryIn('; "default" config\nregistry = "https://mirror.test/npm" ; overridden\n'), {
    url: 'https://mirror.test/npm/',
  })
  for (const line of ['"//mirror.test/:_authToken" = (protected)', '; @own:registry = "x"', '"@own:registry" = "x"'])
    t.true('because' in npm.registryIn(`registry = "https://mirror.test/"\n${line}\n`), line)
  t.true('because' in npm.registryIn('sh: npm: not found'))
  t.true('because' in npm.registryIn('registry = "https://user:secret@mirror.test/"'))
  t.deepEqual(pip.registryIn('WARNING: x\n["https://mirror.test/simple", 0]\n'), { url: 'https://mirror.test/simple/' })
  t.true('because' in pip.registryIn('["https://mirror.test/simple", 1]'))
  t.true('because' in pip.registryIn(''))
  t.deepEqual(go.registryIn('https://mirror.test/go,direct\nsum.golang.org\n'), { url: 'https://mirror.test/go/' })
  const others = [
    'https://mirror.test/go',
    'https://mirror.test,https://other.test,direct',
    'https://m.test|direct',
    'off',
    'direct',
  ]
  for (const proxies of others) t.true('because' in go.registryIn(`${proxies}\nsum.golang.org\n`), proxies)
  for (const checksums of ['off', 'sums.test+1+x', ''])
    t.true('because' in go.registryIn(`https://mirror.test/go,direct\n${checksums}\n`), checksums)
  t.true('because' in go.registryIn('https://user:secret@mirror.test,direct\nsum.golang.org\n'))
  t.true('because' in go.registryIn(''))
  t.deepEqual(cargo.registryIn('  failed to download from `https://mirror.test/index/config.json`\n'), {
    url: 'https://mirror.test/index/',
  })
  t.true('because' in cargo.registryIn('error: no such command: `fetch`'))
  const looked = (from: string) => `[DEBUG] Resolving artifact x:x:pom:1 from [${from}]\n`
  const central = looked('central (https://mirror.test/maven, default, releases)')
  t.deepEqual(maven.registryIn(central), { url: 'https://mirror.test/maven/' })
  t.deepEqual(maven.registryIn(`${central}<settings><!-- <server>\n</server> --><servers/></settings>`), {
    url: 'https://mirror.test/maven/',
  })
  t.deepEqual(maven.registryIn(looked('own (https://mirror.test/maven, default, releases+snapshots)')), {
    url: 'https://mirror.test/maven/',
  })
  for (const from of [
    'a (https://mirror.test/a, default, releases), central (https://mirror.test/b, default, releases)',
    'central (https://mirror.test/a, default, releases, blocked)',
    'central (https://user:secret@mirror.test/a, default, releases)',
    'central (file:///maven, default, releases)',
  ])
    t.true('because' in maven.registryIn(looked(from)), from)
  for (const tag of ['server', 'proxy'])
    t.true('because' in maven.registryIn(`${central}<settings><${tag}>x</${tag}></settings>`), tag)
  t.true('because' in maven.registryIn('sh: mvn: not found'))
  const gems = 'https://gems.test/\n\n'
  t.deepEqual(bundler.registryIn(`${gems}silence_root_warning=true\nother.test=user:secret\n`), {
    url: 'https://gems.test/',
  })
  for (const setting of ['mirror.all=https://mirror.test/', 'mirror.https://gems.test/=x', 'gems.test=user:secret'])
    t.true('because' in bundler.registryIn(`${gems}${setting}\n`), setting)
  for (const printed of ['https://a.test/\nhttps://b.test/\n\n', '\n\n', 'sh: ruby: not found'])
    t.true('because' in bundler.registryIn(printed), printed)
})

test('a package that a registry does not have may be elsewhere for Maven, and where an operator has named another registry', t => {
  t.true(mayBeElsewhere('maven', false))
  t.true(mayBeElsewhere('npm', true))
  t.false(mayBeElsewhere('npm', false))
})

test('settings name an address alone, or off', t => {
  t.deepEqual(namedRegistries({}), { npm: null, pip: null, go: null, cargo: null, maven: null, bundler: null })
  t.deepEqual(namedRegistries({ PACKAGE_CACHE_NPM: 'off', PACKAGE_CACHE_PIP: 'http://10.0.0.1:8080/simple' }), {
    npm: 'off',
    pip: 'http://10.0.0.1:8080/simple/',
    go: null,
    cargo: null,
    maven: null,
    bundler: null,
  })
  for (const text of [
    'x',
    'ftp://mirror.test',
    'https://a:b@mirror.test',
    'https://mirror.test/?a',
    'https://m.test//a',
  ]) {
    t.is(registryUrl(text), null, text)
    t.throws(() => namedRegistries({ PACKAGE_CACHE_NPM: text }), { message: /PACKAGE_CACHE_NPM/ }, text)
  }
})

test('the cache has a tenth of the disk at most, and says what it has done', t => {
  t.is(packageCacheMb(100_000, 2048), 2048)
  t.is(packageCacheMb(10_000, 2048), 1000)
  t.is(packageCacheMb(10_000, 0), 0)
  t.deepEqual(packageCacheFact(0, null), { state: 'no cache: PACKAGE_CACHE_MB is 0', remedy: null })
  t.regex(packageCacheFact(2048, null).state, /no build has used/)
  t.regex(packageCacheFact(2048, 'silent').remedy ?? '', /PACKAGE_CACHE_MB=0/)
  t.regex(packageCacheFact(2048, null, 'x').state, /WHICH BUILDS CANNOT USE: x$/)
  const counts = { bytes: 1, entries: 2, hits: 3, downloads: 4, passedOn: 5 }
  t.is(
    packageCacheFact(2048, counts).state,
    'a cache of up to 2048 MB with 2 files in 1 MB; since its start 3 archives were in it, 4 were downloaded, and 5 requests went to the registry',
  )
})
