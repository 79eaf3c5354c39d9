import { readFileSync } from 'node:fs'
import test from 'ava'
import { upWords } from '../../../cli/installation/detached.ts'
import { loadInstallation, openDataPlace, openInstallation } from '../../../cli/installation/installation.ts'
import { summary } from '../../../cli/installation/summary.ts'
import { toyModelProcess } from '../../../cli/services/toy-model.ts'
import { toyModelName } from '../../../workers/toy-model/text-generator.ts'
import { ownFolder } from '../../kit/folders.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('a start with --ai gives the AI gateway a toy model, which the summary names as one', async t => {
  const { db, url } = await database
  const env = { BERTH_DATA: ownFolder(t), DATABASE_URL: url, AI_UPSTREAM_MODEL: 'another' }
  const started = await openInstallation(env, openDataPlace(env), { ai: true })
  const later = loadInstallation({ BERTH_DATA: env.BERTH_DATA })
  for (const { runsToyModel, settings, ports } of [started, later]) {
    t.true(runsToyModel)
    t.like(settings, {
      AI_UPSTREAM_URL: `http://127.0.0.1:${ports.TOY_MODEL_PORT}/v1`,
      AI_UPSTREAM_MODEL: toyModelName,
    })
  }
  t.false(started.notes.some(note => note.includes('toy model')))
  t.regex(await summary(later, db, null), /^ {2}AI +http:[^ ]*\/v2\/ai, a TOY model .*: for trying things out only/m)

  const next = await openInstallation(env, openDataPlace(env))
  t.false(next.runsToyModel)
  t.false('AI_UPSTREAM_URL' in loadInstallation(env).settings, 'the choice is of one start')
  t.notRegex(await summary(next, db, null), /^ {2}AI|toy model/im)
})

test('a model that the operator has set is used instead of the toy, and the summary says so', async t => {
  const { db, url } = await database
  const env = { BERTH_DATA: ownFolder(t), DATABASE_URL: url, AI_UPSTREAM_URL: 'https://models.example.org/v1' }
  const started = await openInstallation(env, openDataPlace(env), { ai: true })
  t.false(started.runsToyModel)
  t.is(loadInstallation({ BERTH_DATA: env.BERTH_DATA }).settings.AI_UPSTREAM_URL, env.AI_UPSTREAM_URL)
  const text = await summary(started, db, null)
  t.regex(text, /The toy model was not started: AI_UPSTREAM_URL names another model\./)
  t.regex(text, /^ {2}AI +http:[^ ]*\/v2\/ai$/m)
  t.notRegex(text, /a TOY/)
})

test('a start in the background gets the flags of the command', t => {
  t.deepEqual(upWords({}), [])
  t.deepEqual(upWords({ adopt: true, ai: true }), ['--adopt', '--ai'])
})

test('the toy model gets no secret and no setting of the installation, and the least share of the processor', async t => {
  process.env.BERTH_MASTER_KEY ??= '5e'.repeat(32)
  const { command, args, env } = await toyModelProcess({ libraryFolder: '/l', modelPath: '/m' }, 4006).command()
  t.deepEqual([command, ...args.slice(0, 2), ...args.slice(-3)], ['nice', '-n', '19', '/l', '/m', '4006'])
  t.deepEqual(Object.keys(env), ['PATH'])
})

test('every package of the library of the toy model is pinned by its digest, those for other processors are optional', t => {
  const folder = 'cli/services/toy-model'
  const { dependencies } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8')) as {
    dependencies: Record<string, string>
  }
  for (const version of Object.values(dependencies)) t.regex(version, /^\d+\.\d+\.\d+$/)
  const lock = JSON.parse(readFileSync(`${folder}/package-lock.json`, 'utf8')) as {
    packages: Record<string, { version: string; integrity?: string; optional?: boolean; hasInstallScript?: boolean }>
  }
  const { '': _, ...packages } = lock.packages
  const installed = Object.entries(packages).filter(([, { optional }]) => !optional)
  t.true(installed.length > 50)
  for (const [name, { integrity }] of installed) t.regex(integrity ?? '', /^sha512-/, name)
  t.deepEqual(
    installed.flatMap(([name]) => (name.includes('/@node-llama-cpp/') ? [name] : [])),
    ['node_modules/@node-llama-cpp/linux-x64'],
  )
  for (const [name, version] of Object.entries(dependencies)) t.is(packages[`node_modules/${name}`]?.version, version)
})
