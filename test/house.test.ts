import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import test from 'ava'
import { workerCommits } from './kit/crash/databases/cases.ts'
import { breachesOf, folderOf, fragmentsOf, roots, touchesTables } from './kit/house-rules.ts'

/** Look again at 150 lines, split before this. */
const lineCeiling = 250
/** A folder with more gets folders of its own. */
const fileCeiling = 22
/** A file this short with one importer next to it is a part of that importer. */
const fragmentLines = 25
/** An endpoint, which the list of endpoints only names. */
const notFragments = ['api/v2/service.ts > api/v2/endpoints.ts']
const forbiddenNames = /(^|[-/])(utils?|helpers?|common|manager)\.|-service\./

const filesOf = (...patterns: string[]) =>
  execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', ...patterns], { encoding: 'utf8' })
    .split('\n')
    .filter(path => path && !path.startsWith('test/fixtures/'))
    .flatMap(path => {
      try {
        return [{ path, text: readFileSync(path, 'utf8') }]
      } catch {
        return [] // removed, and not committed yet
      }
    })

const sources = filesOf('*.ts')

test('imports go only where the house allows, and libraries stay behind their fences', t => {
  t.true(sources.length > 50)
  t.deepEqual(
    sources.flatMap(({ path, text }) => breachesOf(path, text)),
    [],
  )
})

test('the import check detects violations', t => {
  t.deepEqual(breachesOf('policy/x.ts', `import { a } from '../db/apps.ts'`), ['policy/x.ts imports ../db/apps.ts'])
  t.deepEqual(breachesOf('workflows/x.ts', `import {\n  a,\n} from '../activities/a.ts'`), [
    'workflows/x.ts imports ../activities/a.ts',
  ])
  t.deepEqual(breachesOf('workflows/x.ts', `import type { A } from '../activities/a.ts'`), [])
  t.deepEqual(breachesOf('api/x.ts', `import { type A, b } from '../workflows/a.ts'`), [
    'api/x.ts imports ../workflows/a.ts',
  ])
  t.deepEqual(breachesOf('api/v2/x.ts', `import { type A } from '../../workflows/a.ts'`), [])
  t.deepEqual(breachesOf('db/x.ts', `export * from '../cli/a.ts'`), ['db/x.ts imports ../cli/a.ts'])
  t.deepEqual(breachesOf('activities/x.ts', `import Docker from 'dockerode'`), ['activities/x.ts imports dockerode'])
  t.deepEqual(breachesOf('activities/x.ts', `const d = await import('koa')`), ['activities/x.ts imports koa'])
  for (const driver of ['pg', 'mysql2', 'mysql2/promise', 'ioredis', 'mongodb'])
    t.deepEqual(breachesOf('activities/databases/x.ts', `import { a } from '${driver}'`), [
      `activities/databases/x.ts imports ${driver}`,
    ])
  t.deepEqual(breachesOf('workers/analytics.ts', `import { a } from '@duckdb/node-api'`), [
    'workers/analytics.ts imports @duckdb/node-api',
  ])
  t.deepEqual(breachesOf('activities/analytics/duckdb-days.ts', `import { a } from '@duckdb/node-api'`), [])
  t.deepEqual(breachesOf('activities/databases/engines/redis/redis.ts', `import { Redis } from 'ioredis'`), [])
  t.deepEqual(breachesOf('policy/x.ts', `import { a } from './y'`), ['policy/x.ts imports ./y without its extension'])
})

test('only one file starts processes: none inherits our environment unnoticed', t => {
  const start = `import { spawn } from 'node:child_process'`
  t.deepEqual(breachesOf('activities/x.ts', start), ['activities/x.ts imports node:child_process'])
  t.deepEqual(breachesOf('cli/parts/x.ts', `await import('child_process')`), ['cli/parts/x.ts imports child_process'])
  for (const way of ['require', 'process.getBuiltinModule'])
    t.deepEqual(breachesOf('cli/x.ts', `${way}('node:child_process')`), ['cli/x.ts imports node:child_process'])
  t.deepEqual(breachesOf('lib/child-process.ts', start), [])
  t.deepEqual(breachesOf('policy/x.ts', `import { a } from '../lib/child-process.ts'`), [])
  t.deepEqual(breachesOf('lib/x.ts', `import { a } from '../policy/y.ts'`), ['lib/x.ts imports ../policy/y.ts'])
})

test('tables are read and written in db/ only', t => {
  for (const access of [
    "await trx('apps').where({ id })",
    "db<AppRow>('apps')",
    "trx.into('apps')",
    "db.raw('select 1 from apps')",
    'db.raw(`update apps\n set name = ?`)',
  ]) {
    t.true(touchesTables('activities/x.ts', access), access)
    t.false(touchesTables('db/apps/x.ts', access), access)
  }
  for (const other of ["db.raw('select 1 from pg_database')", 'open(db, id)', 'db.transaction(trx => apps.f(trx))'])
    t.false(touchesTables('activities/x.ts', other), other)
  t.deepEqual(
    sources.filter(({ path, text }) => touchesTables(path, text)).map(({ path }) => path),
    [],
  )
})

/** Start processes of Berth itself, which read the settings; for every other program the variables are named. */
const startOurOwn = ['cli/installation/detached.ts', 'cli/installation/platform.ts', 'cli/test.ts']

test('our whole environment goes to our own processes only', t => {
  const whole = /\benv: *(\{[^}]*\.\.\.)?process\.env\b(?![.[])/
  t.regex('env: process.env, cwd', whole)
  t.regex('env: { A: a, ...process.env }', whole)
  t.notRegex('env: { PATH: process.env.PATH }', whole)
  const handing = sources.filter(({ path, text }) => !/^(test|bench)\//.test(path) && whole.test(text))
  t.deepEqual(
    handing.map(({ path }) => path),
    startOurOwn,
  )
})

/** Hands variables of the environment on to programs, by their names. */
const handsOn = 'lib/child-process.ts'

test('only processes and the command read the environment', t => {
  const readers = sources.filter(
    ({ path, text }) =>
      path !== handsOn && !roots.includes(folderOf(path)) && /^(?!\s*(\*|\/\/|\/\*)).*\bprocess\.env\b/m.test(text),
  )
  t.deepEqual(
    readers.map(({ path }) => path),
    [],
  )
})

/** Words that the glossary replaces and that have no other sense here. Migrations stay as they were written. */
const replacedWords =
  /\b(whoever|what was asked|sayBack|wish(es|ed)?|side by side|of ours(?!\))|of our own|condemn\w*|patience)\b/i

test('words that the glossary has replaced do not return', t => {
  const texts = [...sources, ...filesOf('*.lua', '*.mjs', '*.md')]
  const exempt = /^(db\/migrations\/|docs\/glossary\.md$|test\/house\.test\.ts$)/
  t.regex('for whoever asks', replacedWords)
  t.deepEqual(
    texts
      .filter(({ path }) => !exempt.test(path))
      .flatMap(({ path, text }) =>
        text.split('\n').flatMap((line, n) => (replacedWords.test(line) ? [`${path}:${n + 1}`] : [])),
      ),
    [],
  )
})

test('every statement whose commit the long crash tests cut is one of db/', t => {
  const statements = sources.filter(({ path }) => path.startsWith('db/') && !path.startsWith('db/migrations/'))
  for (const commit of Object.values(workerCommits).flat()) {
    // Of a statement that the query builder writes, the sources have the quoted name only.
    const name = /"(\w+)"/.exec(commit.source)?.[1]
    const inSources = name ? new RegExp(`\\b${name}\\b`) : commit
    t.true(
      statements.some(({ text }) => inSources.test(text)),
      `${commit}`,
    )
  }
})

test('no test is skipped or runs alone', t => {
  const marks = /\btest(\.\w+)*\.(skip|only|todo|failing)\b/
  t.deepEqual(
    sources.filter(({ text }) => marks.test(text)).map(({ path }) => path),
    [],
  )
})

test('tests are never registered conditionally', t => {
  const conditional = /^ *(if \(.*\)|else)( \{)?\n *test(\.\w+)*\(/m
  t.regex("if (process.getuid?.() === 0) {\n  test.serial('as root', t => t.pass())\n}", conditional)
  t.regex("if (bandwidth)\n  test('limits', t => t.pass())", conditional)
  t.notRegex('for (const name of names)\n  test(name, t => t.pass())', conditional)
  t.deepEqual(
    sources.filter(({ path, text }) => path.startsWith('test/') && conditional.test(text)).map(({ path }) => path),
    ['test/activities/bandwidth/bandwidth.test.ts'],
  )
})

test('every wait of a test has a deadline', t => {
  const endless = /^\s*while \(.*\) await (sleep\(|new Promise\()/m
  const forEver = /^( *)for \(;;\) (?!.*\{$).*\bawait\b|^( *)for \(;;\) \{\n(?:(?!\2\}).*\n)*?.*\bawait\b/m
  t.regex('  while (!done) await sleep(20)', endless)
  t.regex('  for (;;) {\n    const is = look()\n    if (is) break\n    await sleep(20)\n  }', forEver)
  t.regex('for (;;) if (await done()) break', forEver)
  t.notRegex('  for (;;) {\n    if (read()) break\n  }\n  await sleep(20)', forEver)
  t.deepEqual(
    sources
      .filter(({ path, text }) => path.startsWith('test/') && (endless.test(text) || forEver.test(text)))
      .map(({ path }) => path),
    [],
  )
})

test('no deadline is joined with another signal by Node, which forgets it once it was collected as garbage', t => {
  const joins = ({ text }: { text: string }) => /AbortSignal\.any\(/.test(text) && /AbortSignal\.timeout\(/.test(text)
  t.true(joins({ text: 'AbortSignal.any([signal, AbortSignal.timeout(5)])' }))
  const ours = sources.filter(({ path }) => folderOf(path) !== 'test')
  // It joins no deadline, and gives one alone to calls of its own.
  const allowed = ['activities/objects/s3.ts']
  const found = ours.filter(joins).map(({ path }) => path)
  t.deepEqual(found.sort(), allowed)
})

test('a swallowed error states why', t => {
  const mute =
    /\.catch\(\(\w*\) => (\{\s*\}|undefined|void 0)\)|\bcatch( \(\w+\))? \{\s*\}|\bignoreError\((?!'[^']{10,}'\))/
  for (const text of [
    'work.catch(() => {})',
    'work.catch(() => undefined)',
    'try {} catch {}',
    "work.catch(ignoreError(''))",
  ])
    t.regex(text, mute)
  t.notRegex("work.catch(ignoreError('the sweep removes it later'))", mute)
  const deaf = /(^|\n)(?! *\/\/)[^\n]*\n[^\n]*\.on(ce)?\('error', \(\) => \{\s*\}\)(?! \/\/)/
  t.regex("const stream = open()\nstream.on('error', () => {})", deaf)
  t.notRegex("// Its reader reports it.\nstream.on('error', () => {})", deaf)
  t.deepEqual(
    sources
      .filter(({ path, text }) => !/^(test|bench)\//.test(path) && (mute.test(text) || deaf.test(text)))
      .map(({ path }) => path),
    [],
  )
})

test('files are small nouns', t => {
  const long = [...sources, ...filesOf('*.lua', '*.mjs', '*.cjs', '*.sh', '*.py')].filter(
    ({ text, path }) => !path.startsWith('test/') && text.split('\n').length > lineCeiling,
  )
  t.deepEqual(
    long.map(({ path }) => path),
    [],
  )
  t.deepEqual(
    sources.filter(({ path }) => forbiddenNames.test(path) || /[A-Z_]/.test(path)).map(({ path }) => path),
    [],
  )
})

test('a folder holds few files', t => {
  const counts = new Map<string, number>()
  for (const { path } of sources) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1)
  const full = [...counts].filter(([folder, count]) => count > fileCeiling && folder !== 'db/migrations')
  t.deepEqual(
    full.map(([folder, count]) => `${folder}: ${count}`),
    [],
  )
})

test('a tiny file with one importer joins it', t => {
  const rule = { maxLines: fragmentLines, ceiling: lineCeiling }
  const small = { path: 'db/a.ts', text: 'export const a = 1\n' }
  const importer = { path: 'db/b.ts', text: "import { a } from './a.ts'\n" }
  t.deepEqual(fragmentsOf([small, importer], rule), ['db/a.ts > db/b.ts'])
  for (const other of [
    { path: 'test/db/a.test.ts', text: "import { a } from '../../db/a.ts'\n" },
    { path: 'db/c.ts', text: "await import('./a.ts')\n" },
  ])
    t.deepEqual(fragmentsOf([small, importer, other], rule), [], other.path)
  t.deepEqual(fragmentsOf([{ ...small, text: '\n'.repeat(30) + small.text }, importer], rule), [])
  t.deepEqual(fragmentsOf([small, { ...importer, text: importer.text + '\n'.repeat(250) + small.text }], rule), [])
  t.deepEqual(fragmentsOf(sources, rule), notFragments)
})

test('the repository names no machine and no registry', t => {
  const tracked = execFileSync(
    'git',
    ['ls-files', '*.ts', '*.mjs', '*.md', '*.sh', '*.lua', '*.yml', 'Dockerfile', 'berth'],
    { encoding: 'utf8' },
  )
  const own = new RegExp(['/wo' + 'rk/main', '/ro' + 'ot/', 'registry\\.npm' + 'js', 'shared/' + 'design'].join('|'))
  const naming = tracked.split('\n').filter(path => {
    try {
      return path && own.test(readFileSync(path, 'utf8'))
    } catch {
      return false
    }
  })
  t.deepEqual(naming, [])
})
