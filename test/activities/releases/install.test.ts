import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import test, { type ExecutionContext } from 'ava'
import { buildContainerName, buildNetwork } from '../../../activities/containers/spec.ts'
import type { AppHostOptions } from '../../../activities/hosts/app-host-options.ts'
import { releaseFolders } from '../../../activities/releases/files.ts'
import { installRelease } from '../../../activities/releases/install.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { readLog } from '../../../db/deploys/deployments.ts'
import { deploymentLogs } from '../../../policy/apps/deployment-logs.ts'
import { installSeconds } from '../../../policy/hosts/host-slots.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { realDocker } from '../../kit/servers/docker.ts'

const database = testDatabase()
const docker = realDocker()
test.before(() => docker.prepare())
test.after.always(() => docker.clean(buildNetwork(docker.run).name))

/** A release with sources, on a volume that is removed after the test. */
async function releaseToInstall(t: ExecutionContext) {
  const { db } = await database
  const make = rows(db)
  await make.host(docker.run)
  const { app } = await make.app((await make.user()).id)
  const deployment = await db('deployments').where({ app_id: app.id }).first()
  const volume = await mkdtemp(`${tmpdir()}/berth-install-`)
  t.teardown(() => rm(volume, { recursive: true, force: true }))
  const folders = releaseFolders(volume, 1)
  await mkdir(folders.source, { recursive: true })

  const traits = { id: docker.run, runtime: 'runc', configNames: [], buildProxy: null, caBundle: null }
  const host = { db, engine: docker.host, traits, sharedUid: null } as unknown as AppHostOptions
  const release = {
    ...{ appId: app.id, ownerId: 'tenant', hostId: docker.run, number: 1, uid: 10_001, deploymentId: deployment.id },
    ...{ language: 'javascript', runtimeVersion: '22', ramMb: 256, reservedMb: 256, cpus: 1 },
  } as Release
  return { db, host, release, folders, deployment }
}

test('an install step with endless output does not grow this process or its log', async t => {
  t.timeout(110_000)
  const { db, host, release, folders, deployment } = await releaseToInstall(t)
  const size = async () =>
    Number(
      (
        await db('deployment_logs')
          .sum({ bytes: db.raw('octet_length(text)') })
          .first()
      )?.bytes,
    )

  const before = process.memoryUsage().rss
  const end = new AbortController()
  const install = installRelease(host, release, folders, { install: `yes "$(printf '%01000d' 0)"` }, end.signal)
  await comesTrue(async () => (await size()) > deploymentLogs.outputBytes - 4 * deploymentLogs.pieceBytes)
  end.abort(new Error('seen enough'))
  await t.throwsAsync(install, { message: 'seen enough' })
  t.true((await size()) <= deploymentLogs.wholeBytes, String(await size()))
  t.true(Buffer.byteLength(await readLog(db, deployment.id)) <= deploymentLogs.wholeBytes)
  t.true(process.memoryUsage().rss - before < 150 * 1024 ** 2)
})

test('an endless install step is ended in time, and nothing of it is left', async t => {
  t.timeout(110_000)
  t.is(installSeconds, 900)
  const { host, release, folders } = await releaseToInstall(t)
  const install = installRelease(host, release, folders, { install: 'sleep 3600' }, new AbortController().signal, 1)
  await t.throwsAsync(install, { message: 'Installing the dependencies took longer than 1 s.' })
  t.is(await docker.host.inspect(buildContainerName(release)), null)
})
