import { randomUUID } from 'node:crypto'
import { migrate, openDatabase } from '../db/database.ts'
import { claimInstallation } from '../db/installation.ts'
import { allowProcesses } from '../db/process-role.ts'
import { demandMasterKey } from '../policy/keys.ts'
import { openLog } from './connect.ts'
import { processConfig } from './process-config.ts'
import { connectTemporal } from './temporal/temporal-connection.ts'
import { prepareNamespace } from './temporal/temporal-namespace.ts'

/** Runs before the processes of an installation in containers: prepares the schema and Temporal's namespace, then exits. Safe to repeat. */
const config = processConfig(process.env)
const log = openLog(config, 'setup')
demandMasterKey(config)

const db = openDatabase({
  url: config.databaseOwnerUrl ?? config.databaseUrl,
  pool: 2,
  statementTimeoutMs: 600_000,
  applicationName: 'berth-setup',
})
await migrate(db)
await claimInstallation(db, randomUUID())
await allowProcesses(db, config.databaseUrl)
await db.destroy()
log.info({}, 'the schema is up to date')

const connection = await connectTemporal(config, 60_000)
await prepareNamespace(connection, config.temporalNamespace)
await connection.close()
log.info({ namespace: config.temporalNamespace }, 'the namespace is ready')
