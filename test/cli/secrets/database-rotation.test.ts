import { join } from 'node:path'
import test from 'ava'
import { unusedPort } from '../../../cli/installation/ports.ts'
import { openSecrets, saveSecrets } from '../../../cli/installation/secrets.ts'
import { adoptDatabasePassword, withNewPasswords } from '../../../cli/secrets/root-rotation.ts'
import { postgresProcess, postgresUrl, setOwnerPassword } from '../../../cli/services/postgres.ts'
import { removeThrowAway, throwAwayFolder } from '../../../cli/test/test-postgres.ts'
import { openDatabase } from '../../../db/database.ts'
import { Supervisor } from '../../../workers/supervisor/supervisor.ts'

test('a start that was interrupted anywhere during a change of the owner’s password is completed by the next one', async t => {
  t.timeout(120_000)
  const folder = throwAwayFolder()
  const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
  t.teardown(async () => {
    await supervisor.stop()
    removeThrowAway(folder)
  })
  const port = await unusedPort()
  const first = openSecrets(folder)
  const optionsOf = ({ databasePassword: password, nextDatabasePassword: nextPassword } = openSecrets(folder)) => ({
    ...{ folder: join(folder, 'postgres'), port, password, nextPassword, durable: false, maxConnections: 20 },
  })
  const works = async (password: string) => {
    const db = openDatabase({ url: postgresUrl(port, password, 'postgres'), pool: 1 })
    return db
      .raw('select 1')
      .then(
        () => true,
        () => false,
      )
      .finally(() => db.destroy())
  }
  await supervisor.start(await postgresProcess(optionsOf(), () => {}))

  saveSecrets(folder, withNewPasswords(first))
  const wanted = openSecrets(folder)
  t.not(wanted.processPassword, first.processPassword)
  t.is(withNewPasswords(wanted).nextDatabasePassword, wanted.nextDatabasePassword, 'a pending password is retained')
  t.true(await works(first.databasePassword), 'only the next start changes anything')

  await setOwnerPassword(optionsOf())
  t.deepEqual([await works(first.databasePassword), await works(wanted.nextDatabasePassword ?? '')], [false, true])
  // Interrupted here: the server has the new password, the file still has the old one first.
  const { ready } = await postgresProcess(optionsOf(), () => {})
  await t.notThrowsAsync(async () => (ready as () => Promise<unknown>)())
  await setOwnerPassword(optionsOf())
  for (let turn = 0; turn < 2; turn++) adoptDatabasePassword({ dataDir: folder, secrets: openSecrets(folder) })
  const after = openSecrets(folder)
  t.deepEqual([after.databasePassword, after.nextDatabasePassword], [wanted.nextDatabasePassword, undefined])
  await setOwnerPassword(optionsOf())
  t.true(await works(after.databasePassword))
})
