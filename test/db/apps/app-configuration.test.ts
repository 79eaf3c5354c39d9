import test from 'ava'
import { adoptConfig, revertConfig } from '../../../db/apps/app-configuration.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import type { AppConfigFile } from '../../../policy/apps/app-config.ts'
import { configFile, rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

/** An application with an address and 512 MB, whose deployment brings a configuration. */
async function deployed(changes: Partial<AppConfigFile>, trigger: 'webhook' | 'restore' = 'webhook') {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const { app, deploymentId } = await make.app((await make.user()).id)
  const config = JSON.stringify(configFile({ subdomain: null, displayName: 'new', ...changes }))
  await db('deployments').where({ id: deploymentId }).update({ config, trigger })
  const adopted = () => adoptConfig(db, { deploymentId, plans: defaultPlans, diskMbPer256Mb: 10 })
  const stored = () => db('apps').where({ id: app.id }).first('name', 'ram_mb', 'subdomain')
  return { app, adopted, stored }
}

test.serial(
  'a pushed configuration without SUBDOMAIN keeps the address and must ask for the memory of one',
  async t => {
    const { app, adopted, stored } = await deployed({ memoryMb: 256 })
    await t.throwsAsync(adopted(), { code: 'INVALID_MEMORY', message: /from 512/ })
    t.deepEqual(await stored(), { name: 'shop', ram_mb: 512, subdomain: app.subdomain })
    const more = await deployed({ memoryMb: 1024 })
    await more.adopted()
    t.deepEqual(await more.stored(), { name: 'new', ram_mb: 1024, subdomain: more.app.subdomain })
  },
)

test.serial("another SUBDOMAIN is refused, the application's own is accepted", async t => {
  const other = await deployed({ subdomain: 'other' })
  await t.throwsAsync(other.adopted(), { code: 'CANNOT_SET_SUBDOMAIN' })
  const { db } = await database
  const same = await deployed({})
  await db('deployments')
    .where({ app_id: same.app.id })
    .update({ config: JSON.stringify(configFile({ subdomain: same.app.subdomain, displayName: 'new' })) })
  await same.adopted()
  t.is((await same.stored()).name, 'new')
})

test.serial('HEALTH is adopted and reverted with its deployment; without an address it is refused', async t => {
  const { db } = await database
  const { app, adopted } = await deployed({ memoryMb: 512, health: '/ready' })
  const path = async () => (await db('apps').where({ id: app.id }).first()).health_path
  await adopted()
  t.is(await path(), '/ready')
  const { id } = await db('deployments').where({ app_id: app.id }).first()
  await revertConfig(db, id)
  t.is(await path(), null)
  const { health: _, ...older } = configFile({ subdomain: null })
  await db('apps').where({ id: app.id }).update({ health_path: '/former' })
  await db('deployments')
    .where({ id })
    .update({ config: JSON.stringify(older) })
  await adopted()
  t.is(await path(), null, 'a configuration that an earlier version has stored names none')

  const worker = await deployed({ health: '/ready' })
  await db('apps').where({ id: worker.app.id }).update({ subdomain: null })
  await t.throwsAsync(worker.adopted(), { code: 'INVALID_HEALTH', message: /SUBDOMAIN/ })
})

test.serial('a restore brings back the old configuration, even with less memory than is allowed now', async t => {
  const { adopted, stored } = await deployed({ memoryMb: 256 }, 'restore')
  await adopted()
  t.is((await stored()).ram_mb, 256)
})
