import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import test from 'ava'
import { ownSettings } from '../cli/installation/installation.ts'
import { portDefaults } from '../cli/installation/ports.ts'
import { parseConfig } from '../policy/config.ts'

const settings = readFileSync('docs/settings.md', 'utf8')

function settingsRead(): Set<string> {
  const source = readdirSync('policy', { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ts'))
    .map(name => readFileSync(`policy/${name}`, 'utf8'))
    .join('\n')
  const read = [...source.matchAll(/\benv\.([A-Z][A-Z0-9_]*)|\benv, '([A-Z][A-Z0-9_]*)'/g)].map(
    ([, dotted, quoted]) => (dotted ?? quoted) as string,
  )
  return new Set([...read, ...Object.keys(portDefaults)])
}

test('later commands see every setting that the start saw, but the login that owns the schema', t => {
  const names = [...settingsRead()]
  t.deepEqual(names.filter(name => !(name in ownSettings({ [name]: 'given' }))).sort(), [
    'DATABASE_OWNER_URL',
    'HTTPS_PROXY',
    'HTTP_PROXY',
    'NODE_EXTRA_CA_CERTS',
    'NO_PROXY',
    'POSTGRES_PORT',
    'S3RVER_PORT',
    'SSL_CERT_FILE',
    'TOY_MODEL_PORT',
  ])
  t.deepEqual(ownSettings({ HOME: '/home/ana', PATH: '/bin' }), {})
})

test('paragraphs of documents are wrapped; lists of keys and tables cannot be', t => {
  const files = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'bench/README.md']
  const documents = readdirSync('docs', { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.md'))
    .map(name => join('docs', name))
  const prose = [...files, ...documents].flatMap(file =>
    readFileSync(file, 'utf8')
      .replaceAll(/^```[\s\S]*?^```/gm, '')
      .split('\n')
      .filter(line => !/^\s*\||^(`[^`]+` ?)+$|^Sub-resources that no row has/.test(line))
      .map(line => ({ file, line })),
  )
  t.true(prose.length > 5000)
  t.deepEqual(
    prose.filter(({ line }) => line.length > 160),
    [],
  )
})

test('every setting that the platform reads is documented', t => {
  const names = settingsRead()
  t.true(names.size > 40)
  t.deepEqual(
    [...names].filter(name => !settings.includes(`\`${name}\``)),
    [],
  )
})

/** Names and values of the tables whose second column is a default that can be set as it stands there. */
function documentedDefaults(): [name: string, value: string][] {
  const tables = settings.split('\n## ').filter(section => section.includes('| setting | default |'))
  const rows = tables.flatMap(section => section.split('\n').filter(line => line.startsWith('| `')))
  return rows.flatMap(row => {
    const [names = '', defaults = ''] = row.split(' | ')
    const all = [...names.matchAll(/`(\w+)`/g)].map(([, name]) => name as string)
    const range = /^(\d+) to \d+$/.exec(defaults)
    const values = range ? all.map((_, n) => String(Number(range[1]) + n)) : defaults.split(', ')
    return all.flatMap((name, n): [string, string][] => {
      const literal = /^`(?![A-Z_]+`)([^`<]+)`$|^(\d+)$/.exec(
        values.length === 1 ? values[0]! : values.length === all.length ? values[n]! : '',
      )
      return literal && !notInConfig.has(name) ? [[name, literal[1] ?? literal[2]!]] : []
    })
  })
}

/** Settings of `up` alone, one whose default depends on the installation, and one that also says that somebody else runs it. */
const notInConfig = new Set([
  'POSTGRES_PORT',
  'TEMPORAL_PORT',
  'TEMPORAL_UI_PORT',
  'S3RVER_PORT',
  'TOY_MODEL_PORT',
  'HOST_NAME',
  'TEMPORAL_UI_URL',
])

/** Settings that count only alongside others. */
const alongside: Record<string, Record<string, string>> = {
  S3_STORE_BUCKET: withS3(),
  S3_STORE_REGION: withS3(),
  AI_UPSTREAM_MODEL: { AI_UPSTREAM_URL: 'http://127.0.0.1:8000/v1' },
}

test('every documented default is what the setting is without it, and another value is not', t => {
  const defaults = documentedDefaults()
  t.true(defaults.length >= 45, `${defaults.length}`)
  for (const [name, value] of defaults) {
    const others = alongside[name] ?? {}
    const usual = configured(others)
    t.deepEqual(configured({ ...others, [name]: value }), usual, `${name} is not ${value}`)
    const values = [String(Number(value) + 1), 'on', 'off', 'runsc', 's3', 'another', '/another']
    const counts = values.some(
      other => other !== value && !isDeepStrictEqual(configured({ ...others, [name]: other }), usual),
    )
    t.true(counts, `${name} changes nothing`)
  }
})

function withS3(): Record<string, string> {
  const names = ['S3_STORE_ENDPOINT', 'S3_STORE_ACCESS_KEY_ID', 'S3_STORE_SECRET_ACCESS_KEY']
  return { OBJECT_STORE: 's3', ...Object.fromEntries(names.map(name => [name, 'given'])) }
}

/** A configuration, or why there is none. */
function configured(env: Record<string, string>): unknown {
  try {
    return parseConfig(env, '/somewhere')
  } catch (error) {
    return String(error)
  }
}

/** Every page of the documentation, and those at the root. */
const pages = [
  ...['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'PROMISES.md'],
  ...readdirSync('docs', { recursive: true, encoding: 'utf8' }).map(name => `docs/${name}`),
].filter(name => name.endsWith('.md'))

test('everything that the documentation points to exists', t => {
  for (const page of pages)
    for (const [, target] of readFileSync(page, 'utf8').matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g))
      t.true(existsSync(join(dirname(page), target as string)), `${page} -> ${target}`)
})

test('the examples that docs/databases.md quotes are the files that tests run, all of them', t => {
  const page = readFileSync('docs/databases.md', 'utf8')
  const quoted = [...page.matchAll(/^`(examples\/\S+)`:\n\n```\w+\n(.*?)^```$/gms)]
  for (const [, file, text] of quoted) t.is(text, readFileSync(file as string, 'utf8'), file)
  const folders = ['examples/databases/node', 'examples/databases/python']
  const present = folders.flatMap(folder => readdirSync(folder).map(name => `${folder}/${name}`))
  t.deepEqual(quoted.map(([, file]) => file).sort(), present.filter(name => !name.includes('__pycache__')).sort())
})

test('the walks through the code name files that exist, and functions that are in them', t => {
  const walks = readFileSync('docs/walks.md', 'utf8')
  const named = [...walks.matchAll(/`([\w./-]+\.(?:ts|lua))`(?:(?:, | \()((?:`\w+`(?:, )?)+)\))?/g)]
  const functions = named.flatMap(([, file, names = '']) =>
    [...names.matchAll(/\w+/g)].map(([name]) => [file as string, name] as const),
  )
  t.true(named.length > 50 && functions.length > 40, `${named.length}, ${functions.length}`)
  for (const [, file] of named) t.true(existsSync(file as string), `${file} is missing`)
  for (const [file, name] of functions)
    t.true(new RegExp(`\\b${name}\\b`).test(readFileSync(file, 'utf8')), `${file} has no ${name}`)
})

const decisions = readdirSync('docs/decisions').filter(name => name !== 'README.md')

test('the index of decisions numbers every page, and lists it once', t => {
  const index = readFileSync('docs/decisions/README.md', 'utf8')
  const listed = [...index.matchAll(/^\| (\d+) \| \[([a-z0-9-]+)\]\((\S+)\) \| \S/gm)]
  t.deepEqual(listed.map(([, , , target]) => target as string).sort(), [...decisions].sort())
  t.deepEqual(
    listed.filter(([, , name, target]) => target !== `${name}.md`),
    [],
  )
  t.deepEqual(
    listed.map(([, number]) => Number(number)).sort((a, b) => a - b),
    decisions.map((_, index) => index + 1),
  )
})

test('every decision has a context, a decision and consequences, in this order and with words in each', t => {
  for (const name of decisions) {
    const [top, ...parts] = readFileSync(`docs/decisions/${name}`, 'utf8').split(/^## /m)
    t.regex(top as string, /^# \S.*\n+$/, `${name} begins with a title only`)
    const filled = parts.map(part => /^(\w+)\n+[^#\s]/.exec(part.replace(/^(\w+\n+)### .*\n+/, '$1'))?.[1])
    t.deepEqual(filled, ['Context', 'Decision', 'Consequences'], name)
  }
})

const contract = readFileSync('docs/contract.md', 'utf8')
const rules = [...contract.matchAll(/^\*\*(\d+\.\d+) \S/gm)].map(([, number]) => number as string)

test('the rules of the contract are numbered without a gap, each once', t => {
  const counts = new Map<string, number>()
  for (const rule of rules) {
    const [section, number] = rule.split('.') as [string, string]
    t.is(Number(number), (counts.get(section) ?? 0) + 1, rule)
    counts.set(section, Number(number))
  }
  t.deepEqual(
    [...counts.keys()],
    [...contract.matchAll(/^## (\d+) /gm)].map(([, number]) => number),
  )
})

test('every citation of the contract leads to one of its rules, and nothing cites what is not here', t => {
  const folders = [
    'activities',
    'api',
    'bench',
    'cli',
    'db',
    'edge',
    'lib',
    'policy',
    'runtimes',
    'test',
    'workers',
    'workflows',
  ]
  const inFolders = [...folders, 'docs'].flatMap(folder =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map(name => `${folder}/${name}`),
  )
  const cited = new Set<string>()
  for (const file of ['ARCHITECTURE.md', 'CONTRIBUTING.md', 'README.md', ...inFolders]) {
    if (!/\.(ts|md|lua)$/.test(file) || file === 'test/docs.test.ts') continue
    const text = readFileSync(file, 'utf8')
    t.false(
      /\b[Ss]pecification\b|\b[Dd]ecision \d|\bspec \d/.test(text),
      `${file} cites what is not in this repository`,
    )
    for (const [, list] of text.matchAll(/\bcontract (\d[\d.]*(?:(?:, | and | to )\d+\.\d+)*)/gi))
      for (const number of list!.replace(/\.$/, '').split(/, | and | to /)) {
        t.true(rules.includes(number), `${file} cites contract ${number}`)
        cited.add(number)
      }
  }
  t.true(cited.size > 80, `${cited.size}`)
})

test('codes and settings that the contract names exist in the code', t => {
  const source = ['policy', 'api', 'activities', 'db', 'workers'].flatMap(folder =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter(name => name.endsWith('.ts'))
      .map(name => readFileSync(`${folder}/${name}`, 'utf8')),
  )
  const known = new Set(source.join('\n').match(/\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b/g))
  const named = contract.match(/\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b/g) ?? []
  t.true(named.length > 100, `${named.length}`)
  t.deepEqual(
    named.filter(name => !known.has(name)),
    [],
  )
})
