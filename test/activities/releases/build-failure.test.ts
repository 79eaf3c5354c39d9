import { mkdir } from 'node:fs/promises'
import test from 'ava'
import type { AppHostOptions } from '../../../activities/hosts/app-host-options.ts'
import { withLastLines } from '../../../activities/releases/build-failure.ts'
import { releaseFolders } from '../../../activities/releases/files.ts'
import { installRelease } from '../../../activities/releases/install.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { appendLog } from '../../../db/deploys/deployments.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { ownFolder } from '../../kit/folders.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const secret = 'NPM_TOKEN=npm_4711'

async function deployment() {
  const { db } = await database
  const make = rows(db)
  await make.host(`h-${Math.random()}`)
  const { app } = await make.app((await make.user()).id)
  const { id } = await db('deployments').where({ app_id: app.id }).first()
  return { db, app, deploymentId: id as string }
}

test('the error of a failed install step contains none of its output, which is in the log', async t => {
  const { db, app, deploymentId } = await deployment()
  const folders = releaseFolders(ownFolder(t), 1)
  await mkdir(folders.source, { recursive: true })
  const engine = new FakeContainerHost({ 'npm ci': { prints: `${secret}\nERR! no such package\n`, exits: 1 } })
  const traits = { id: 'h1', runtime: 'runc', configNames: [], buildProxy: null, caBundle: null }
  const host = { db, engine, traits, sharedUid: null } as unknown as AppHostOptions
  const release = {
    appId: app.id,
    ownerId: app.owner_id,
    deploymentId,
    uid: 20_001,
    ramMb: 256,
    reservedMb: 256,
    cpus: 1,
    language: 'javascript',
    runtimeVersion: '22',
    number: 1,
  }
  const thrown = await t.throwsAsync(
    installRelease(host, release as Release, folders, { install: 'npm ci' }, new AbortController().signal),
  )
  t.is(thrown?.message, 'Installing the dependencies ended with exit code 1.')
  t.false(JSON.stringify({ ...thrown, stack: thrown?.stack }).includes(secret))
  const failure = await withLastLines(db, deploymentId, { code: 'BUILD_FAILED', message: thrown!.message })
  t.is(failure.message, `Installing the dependencies ended with exit code 1: ${secret} | ERR! no such package`)
})

test('few and short last lines are added, and only to failed builds', async t => {
  const { db, deploymentId } = await deployment()
  const ended = { code: 'BUILD_FAILED', message: 'Installing the dependencies ended with exit code 7.' }
  t.deepEqual(await withLastLines(db, deploymentId, ended), ended, 'an empty log')
  for (let n = 0; n < 40; n++) await appendLog(db, deploymentId, `line ${n}\n`)
  t.regex((await withLastLines(db, deploymentId, ended)).message, /exit code 7: line 35 \| .* \| line 39$/)
  await appendLog(db, deploymentId, 'x'.repeat(100_000))
  t.true((await withLastLines(db, deploymentId, ended)).message.length < 700)
  for (const other of [
    { code: 'HEALTH_CHECK_FAILED', message: ended.message },
    { code: 'BUILD_FAILED', message: 'Installing the dependencies needed more than 256 MB of memory.' },
    { code: 'BUILD_FAILED', message: 'Installing the dependencies ended with exit code 1: as an earlier version said' },
  ])
    t.deepEqual(await withLastLines(db, deploymentId, other), other)
  t.deepEqual(await withLastLines(db, null, ended), ended)
})
