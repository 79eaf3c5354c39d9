import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { pino } from 'pino'
import { authenticator } from '../../../api/pipeline/authenticate.ts'
import { loadInstallation, openDataPlace, openInstallation } from '../../../cli/installation/installation.ts'
import { openSecrets } from '../../../cli/installation/secrets.ts'
import { secretsCommand } from '../../../cli/secrets/secrets.ts'
import { createKey, createSession } from '../../../db/accounts/accounts.ts'
import { latestAudit } from '../../../db/audit.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import type { Config } from '../../../policy/config.ts'
import { isIssuedAddress, newWebhookAddress } from '../../../policy/git/webhooks/addresses.ts'
import { resealOnce } from '../../../workers/loops/reseal.ts'
import { operatorHere } from '../../kit/actors/operator-command.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const log = pino({ level: 'silent' })

test('a new root secret is refused while the old one encrypts values, and keeps API keys valid', async t => {
  t.timeout(60_000)
  const { db, url } = await database
  const folder = mkdtempSync(join(tmpdir(), 'berth-rotation-'))
  chmodSync(folder, 0o711)
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const env = { BERTH_DATA: join(folder, 'data'), DATABASE_URL: url, TEMPORAL_ADDRESS: '127.0.0.1:9' }
  const start = async () => (await openInstallation(env, openDataPlace(env))).config
  // Here the secrets are in the folder, as in every installation created by `berth up`.
  const secrets = (...args: string[]) =>
    operatorHere([secretsCommand], { ...env, BERTH_MASTER_KEY: '' }, 'secrets', ...args)
  const first = await start()
  const user = await rows(db).user()
  const { key } = await createKey(db, first.masterKey, { userId: user.id, name: 'mine' })
  const address = newWebhookAddress(first.masterKey)
  const { token } = await createSession(db, first.masterKey, { userId: user.id, lifeSeconds: 600 })
  const may = ({ masterKey, earlierKeyChecks }: Config, credential: string) =>
    authenticator({ db, masterKey, earlierKeyChecks, plans: defaultPlans })(
      {
        headers: { authorization: credential },
        rawHeaders: ['authorization', credential],
        headersDistinct: { authorization: [credential] },
      } as unknown as IncomingMessage,
      '192.0.2.1',
    ).then(
      () => true,
      () => false,
    )
  t.deepEqual([await may(first, key), await may(first, token)], [true, true])

  t.regex((await secrets('rotate', '--master')).stderr, /S3 credentials become invalid .*use --yes/s)
  t.regex((await secrets('rotate', '--master', '--yes')).stderr, /still encrypts .*First: berth secrets rotate/)
  t.is(openSecrets(env.BERTH_DATA).masterKey, first.masterKey, 'nothing was done')

  t.is((await secrets('rotate')).code, 0)
  const second = await start()
  await resealOnce({ db, keys: second.sealKeys, log })
  const done = await secrets('rotate', '--master', '--yes')
  t.regex(done.stdout, /Rotated: master\. .*Everyone must sign in again.*Hosts on other machines/s, done.stderr)
  t.is((await secrets('rotate', '--master', '--yes')).code, 0, 'it can be run again')
  t.is(
    loadInstallation(env).config.masterKey,
    first.masterKey,
    'commands use the key of the processes until the next start',
  )

  const third = await start()
  t.notDeepEqual([third.masterKey, third.sealKeys.keys.get(1)], [first.masterKey, first.sealKeys.keys.get(1)])
  t.deepEqual([await may(third, key), await may(third, token)], [true, false])
  const { key: later } = await createKey(db, third.masterKey, { userId: user.id, name: 'later' })
  t.deepEqual([await may(third, later), await may(first, later)], [true, false])
  t.false(await may({ ...third, earlierKeyChecks: [] }, key), 'the retained check is what keeps it valid')
  t.true(isIssuedAddress(third, address), 'webhook addresses stay valid')
  t.false(isIssuedAddress({ ...third, earlierKeyChecks: [] }, address))
  t.regex((await secrets('rotate', '--database')).stderr, /does not manage this database/)
  const acts = (await latestAudit(db, 2)).map(({ action, resource }) => [action, resource])
  t.deepEqual(acts, [
    ['secrets.rotate', 'master'],
    ['secrets.rotate', 'master'],
  ])
})
