import test from 'ava'
import { ConfigRefused, parseAppConfig } from '../../../policy/apps/app-config.ts'
import type { ErrorCode } from '../../../policy/errors.ts'
import { runtimes } from '../../../policy/runtimes.ts'

const names = [
  'index.js',
  'main.py',
  'server.ts',
  'index.html',
  'main.go',
  'go.mod',
  'src/app.js',
  'run',
  'App.JS',
  'a/b/c.rb',
]
const files = { has: (path: string) => names.includes(path), rootNames: names.filter(name => !name.includes('/')) }
const full = { DISPLAY_NAME: 'Hello', MAIN: 'index.js', MEMORY: '256', VERSION: 'recommended' }

type Keys = Record<string, string | null>

function text(keys: Keys): string {
  return Object.entries({ ...full, ...keys })
    .flatMap(([key, value]) => (value === null ? [] : [`${key}=${value}`]))
    .join('\n')
}

const parse = (keys: Keys, has = files) => parseAppConfig(text(keys), has)

test('a minimal file gives everything else its default', t => {
  t.deepEqual(parse({}), {
    displayName: 'Hello',
    description: null,
    main: 'index.js',
    memoryMb: 256,
    version: 'recommended',
    subdomain: null,
    start: null,
    autorestart: false,
    runtime: null,
    language: 'javascript',
    health: null,
    runtimeVersion: runtimes.javascript.recommended,
  })
})

test('lines are parsed as people and tools write them', t => {
  const written =
    '\ufeff# DISPLAY_NAME=no\r\n\r\n display_name =  One \r\nDISPLAY_NAME=Olá = 世界\r\nmain=index.js\rMemory=512\nVERSION=LATEST\nsubdomain=My-App\nWHAT=ever\nID=1\nnonsense\nAUTORESTART=TRUE'
  const config = parseAppConfig(written, files)
  t.is(config.displayName, 'Olá = 世界')
  t.is(config.memoryMb, 512)
  t.is(config.version, 'latest')
  t.is(config.runtimeVersion, runtimes.javascript.latest)
  t.is(config.subdomain, 'my-app')
  t.true(config.autorestart)
})

const accepted: Record<string, [Keys, object]> = {
  '32 characters that are more bytes': [{ DISPLAY_NAME: '😀'.repeat(32) }, { displayName: '😀'.repeat(32) }],
  'a leading ./': [{ MAIN: './src/app.js' }, { main: 'src/app.js' }],
  'an extension in upper case': [{ MAIN: 'App.JS' }, { language: 'javascript' }],
  'MAIN with START need not exist': [
    { MAIN: 'dist/x.ts', START: 'npm start' },
    { language: 'typescript', start: 'npm start' },
  ],
  'START with RUNTIME': [
    { MAIN: null, START: './run', RUNTIME: 'Python' },
    { main: null, language: 'python', runtime: 'python' },
  ],
  'RUNTIME over MAIN': [{ MAIN: 'index.js', RUNTIME: 'typescript' }, { language: 'typescript' }],
  'RUNTIME for a MAIN without extension': [{ MAIN: 'run', RUNTIME: 'nodejs' }, { language: 'javascript' }],
  'a static site': [{ MAIN: 'index.html' }, { language: 'static' }],
  'the largest memory': [{ MEMORY: '32768' }, { memoryMb: 32_768 }],
  'a shorter version': [
    { MAIN: 'main.py', VERSION: '3' },
    { version: '3', runtimeVersion: runtimes.python.versions[0] },
  ],
  'a tab in the description': [{ DESCRIPTION: 'a\tb' }, { description: 'a\tb' }],
  // An application that has one may name it again; a new one is refused (app-creation.test.ts).
  'a subdomain of encoded letters': [{ SUBDOMAIN: 'xn--e1afmkfd', MEMORY: '512' }, { subdomain: 'xn--e1afmkfd' }],
  'an empty optional value': [
    { SUBDOMAIN: '', DESCRIPTION: ' ' },
    { subdomain: null, description: null },
  ],
  'a path to check': [{ HEALTH: '/ready?deep=1&x=%20"' }, { health: '/ready?deep=1&x=%20"' }],
  'the longest path to check': [{ HEALTH: `/${'a'.repeat(255)}` }, { health: `/${'a'.repeat(255)}` }],
  'an empty path to check': [{ HEALTH: ' ' }, { health: null }],
  'a dependency file that is there': [{ MAIN: 'main.go' }, { language: 'go' }],
}

for (const [name, [keys, expected]] of Object.entries(accepted))
  test(`accepted: ${name}`, t => t.like(parse(keys), expected))

const refused: [ErrorCode, string, Keys][] = [
  ['MISSING_DISPLAY_NAME', 'none', { DISPLAY_NAME: null }],
  ['MISSING_DISPLAY_NAME', 'an empty one', { DISPLAY_NAME: '' }],
  ['INVALID_DISPLAY_NAME', '33 characters', { DISPLAY_NAME: 'é'.repeat(33) }],
  ['INVALID_DISPLAY_NAME', 'a control character', { DISPLAY_NAME: 'a\u0000b' }],
  ['INVALID_DISPLAY_NAME', 'an override of the direction', { DISPLAY_NAME: 'shop\u202egpj.exe' }],
  ['INVALID_DISPLAY_NAME', 'a line separator', { DISPLAY_NAME: 'a\u2028b' }],
  ['INVALID_DISPLAY_NAME', 'a tab', { DISPLAY_NAME: 'a\tb' }],
  ['INVALID_DISPLAY_NAME', 'nothing that is seen', { DISPLAY_NAME: '\u200b\u3164' }],
  ['INVALID_DISPLAY_NAME', 'bytes that are no UTF-8', { DISPLAY_NAME: 'Ol\ufffd' }],
  ['MISSING_MAIN', 'neither MAIN nor START', { MAIN: null }],
  ['INVALID_MAIN', 'a missing file', { MAIN: 'other.js' }],
  ['INVALID_MAIN', 'another case', { MAIN: 'Index.js' }],
  ['INVALID_MAIN', 'a long name', { MAIN: `${'a'.repeat(30)}.js` }],
  ['INVALID_MAIN', 'no extension', { MAIN: 'run' }],
  ['INVALID_MAIN', 'a folder of packages', { MAIN: 'node_modules/x.js', START: 'x' }],
  ['INVALID_MAIN', 'a hidden folder', { MAIN: 'a/.b/x.js', START: 'x' }],
  ['INVALID_MAIN', 'outside', { MAIN: '../index.js' }],
  ['MISSING_MEMORY', 'none', { MEMORY: null }],
  ['INVALID_MEMORY', 'a unit', { MEMORY: '512MB' }],
  ['INVALID_MEMORY', 'too little', { MEMORY: '255' }],
  ['INVALID_MEMORY', 'too little with an address', { MEMORY: '511', SUBDOMAIN: 'a' }],
  ['INVALID_MEMORY', 'too much', { MEMORY: '32769' }],
  ['INVALID_MEMORY', 'a fraction', { MEMORY: '256.5' }],
  ['MISSING_VERSION', 'none', { VERSION: null }],
  ['INVALID_VERSION', 'a word', { VERSION: 'newest' }],
  ['INVALID_VERSION', 'one that is not offered', { VERSION: '99' }],
  [
    'INVALID_VERSION',
    'one that is not offered, language by RUNTIME',
    { MAIN: null, START: 'x', RUNTIME: 'go', VERSION: '99' },
  ],
  ['INVALID_DESCRIPTION', 'an override of the direction', { DESCRIPTION: 'a\u202eb' }],
  ['INVALID_DESCRIPTION', 'a line separator', { DESCRIPTION: 'a\u2028b' }],
  ['INVALID_DESCRIPTION', 'too long', { DESCRIPTION: 'x'.repeat(281) }],
  ['INVALID_SUBDOMAIN', 'a leading hyphen', { SUBDOMAIN: '-a', MEMORY: '512' }],
  ['INVALID_SUBDOMAIN', 'a trailing hyphen', { SUBDOMAIN: 'a-', MEMORY: '512' }],
  ['INVALID_SUBDOMAIN', 'a dot', { SUBDOMAIN: 'a.b', MEMORY: '512' }],
  ['INVALID_SUBDOMAIN', '64 characters', { SUBDOMAIN: 'a'.repeat(64), MEMORY: '512' }],
  ['SUBDOMAIN_TAKEN', 'a name of the platform', { SUBDOMAIN: 'API', MEMORY: '512' }],
  ['SUBDOMAIN_TAKEN', 'a name of a database', { SUBDOMAIN: 'db-1', MEMORY: '512' }],
  ['INVALID_START', 'too long', { START: 'x'.repeat(257) }],
  ['INVALID_AUTORESTART', 'another word', { AUTORESTART: 'yes' }],
  ['INVALID_RUNTIME', 'unknown', { RUNTIME: 'cobol' }],
  ['INVALID_RUNTIME', 'START alone', { MAIN: null, START: './run' }],
  ['INVALID_HEALTH', 'no leading slash', { HEALTH: 'ready' }],
  ['INVALID_HEALTH', 'a whole address', { HEALTH: 'http://10.0.0.1/' }],
  ['INVALID_HEALTH', 'a space', { HEALTH: '/a b' }],
  ['INVALID_HEALTH', 'a tab', { HEALTH: '/a\tb' }],
  ['INVALID_HEALTH', 'a control character', { HEALTH: '/a\u0000' }],
  ['INVALID_HEALTH', 'a fragment', { HEALTH: '/a#b' }],
  ['INVALID_HEALTH', 'a letter that is not ASCII', { HEALTH: '/é' }],
  ['INVALID_HEALTH', '257 characters', { HEALTH: `/${'a'.repeat(256)}` }],
  ['MISSING_DEPENDENCIES_FILE', 'a program that needs one', { MAIN: 'main.go' }],
]

for (const [code, name, keys] of refused)
  test(`${code}: ${name}`, t => {
    const found = code === 'MISSING_DEPENDENCIES_FILE' ? { ...files, rootNames: ['main.go'] } : files
    t.is(t.throws(() => parse(keys, found), { instanceOf: ConfigRefused })!.code, code)
  })

test('of several mistakes the first in the table is reported', t => {
  const wrong: Keys = {
    DISPLAY_NAME: '',
    MAIN: '.x/y.js',
    MEMORY: 'x',
    VERSION: 'x',
    DESCRIPTION: 'x'.repeat(300),
    SUBDOMAIN: '-',
    START: 'x'.repeat(300),
    AUTORESTART: 'x',
    RUNTIME: 'x',
    HEALTH: 'x',
  }
  const right: Keys = {
    ...full,
    MEMORY: '512',
    DESCRIPTION: '',
    SUBDOMAIN: '',
    START: '',
    AUTORESTART: '',
    RUNTIME: '',
    HEALTH: '',
  }
  const actual = []
  for (const key of Object.keys(wrong)) {
    actual.push(t.throws(() => parse(wrong), { instanceOf: ConfigRefused })!.code)
    wrong[key] = right[key]!
  }
  t.deepEqual(actual, [
    'MISSING_DISPLAY_NAME',
    'INVALID_MAIN',
    'INVALID_MEMORY',
    'INVALID_VERSION',
    'INVALID_DESCRIPTION',
    'INVALID_SUBDOMAIN',
    'INVALID_START',
    'INVALID_AUTORESTART',
    'INVALID_RUNTIME',
    'INVALID_HEALTH',
  ])
})

test('a host that offers fewer versions decides', t => {
  const only20 = (_: string, version: string) => (['recommended', '20'].includes(version) ? '20' : null)
  t.is(parseAppConfig(text({}), files, only20).runtimeVersion, '20')
  t.is(
    t.throws(() => parseAppConfig(text({ VERSION: '22' }), files, only20), { instanceOf: ConfigRefused })!.code,
    'INVALID_VERSION',
  )
})
