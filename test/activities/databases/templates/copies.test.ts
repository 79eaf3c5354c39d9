import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { engineOf } from '../../../../activities/databases/engines/select.ts'
import { templateArchives } from '../../../../activities/databases/templates/archives.ts'
import { databaseTemplates } from '../../../../activities/databases/templates/templates.ts'
import { engines } from '../../../../policy/databases/engines.ts'
import { customers } from '../../../kit/databases/customers.ts'
import { type EngineContainer, engineContainer } from '../../../kit/databases/engine-container.ts'
import { logLines } from '../../../kit/log-sink.ts'
import { demandRoot } from '../../../kit/root.ts'
import { realDocker } from '../../../kit/servers/docker.ts'
import { newFolder } from './template-kit.ts'

demandRoot()

const choices = [
  ['postgres', '17', 1024],
  ['mysql', '9', 1024],
] as const

for (const [engine, version, memoryMb] of choices)
  test.serial(`${engine}: copies of one template are databases of their own, which share nothing`, async t => {
    t.timeout(600_000)
    const docker = realDocker()
    const image = { engine, version, image: engines[engine].image(version) }
    await docker.host.ensureImage(image.image)
    const { log, lines } = logLines()
    const cache = newFolder()
    const templates = databaseTemplates({
      ...{ engine: docker.host, engineOf, archives: templateArchives(cache), drafts: join(newFolder(), 'drafts') },
      traits: { id: docker.run, runtime: 'runc', configNames: [], buildProxy: null, caBundle: null },
      ...{ sharedUid: null, log },
    })
    const copies = [1, 2].map(() => engineContainer({ adapter: engineOf(engine), engine, version, memoryMb }))
    try {
      const [one, other] = (await Promise.all(copies)) as [EngineContainer, EngineContainer]
      for (const { folders, traits } of [one, other])
        t.true(await templates.place(image, { data: folders.data, uid: traits.uid }, AbortSignal.timeout(120_000)))
      t.deepEqual(lines, [], 'nothing went wrong on the way')
      t.deepEqual(readdirSync(cache).length, 1)
      if (engine === 'postgres') assertOwnIdentity(t, one, other)
      const archive = readFileSync(join(cache, readdirSync(cache)[0]!))
      for (const database of [one, other]) {
        await database.prepare()
        await database.locally(engineOf(engine).setPassword)
        for (const secret of Object.values(database.secrets())) t.false(archive.includes(secret))
      }
      t.is(new Set([await identityOf(engine, one), await identityOf(engine, other)]).size, 2)
      const customer = await customers[engine](one.remote, one.secrets().password)
      await customer.write(1)
      await t.throwsAsync(
        customers[engine](other.remote, one.secrets().password),
        undefined,
        'its password opens no other',
      )
      const second = await customers[engine](other.remote, other.secrets().password)
      t.deepEqual(await second.read().catch(() => []), [], 'what is written to one is not in the other')
      t.deepEqual(await customer.read(), [1])
      customer.end()
      second.end()
    } finally {
      for (const copy of copies) await (await copy).clean()
      await docker.clean()
    }
  })

/** What the server calls itself. */
async function identityOf(engine: 'postgres' | 'mysql', database: EngineContainer): Promise<string> {
  const { folders } = database
  if (engine === 'mysql') return readFileSync(join(folders.data, 'mysql', 'auto.cnf'), 'utf8')
  return controlFile(database).readBigUInt64LE().toString()
}

const controlFile = ({ folders }: EngineContainer): Buffer => readFileSync(join(folders.data, 'pg/global/pg_control'))

/** Before a server has run: also the log has the identifier, and the secret behind salts of unknown roles differs. */
function assertOwnIdentity(t: ExecutionContext, one: EngineContainer, other: EngineContainer): void {
  for (const database of [one, other]) {
    const [segment] = readdirSync(join(database.folders.data, 'pg/pg_wal')).filter(name => /^[0-9A-F]{24}$/.test(name))
    const log = readFileSync(join(database.folders.data, 'pg/pg_wal', segment!))
    t.is(log.readBigUInt64LE(24), controlFile(database).readBigUInt64LE())
  }
  t.notDeepEqual(controlFile(one).subarray(256, 288), controlFile(other).subarray(256, 288))
}
