import { type Db, isUnavailable, openDatabase } from '../../db/database.ts'
import { isFurtherHost, mannerOf } from '../doctor/manner.ts'
import { type Installation, loadInstallation, NotRunning } from './installation.ts'

/** Runs an operator's command on the installation's database. Throws `NotRunning` when it does not answer. */
export async function withInstallation<T>(work: (installation: Installation, db: Db) => Promise<T>): Promise<T> {
  const installation = loadInstallation(process.env)
  const db = openDatabase({ url: installation.config.databaseUrl, pool: 2, applicationName: 'berth-command' })
  try {
    return await work(installation, db)
  } catch (error) {
    if (isUnavailable(error)) throw new NotRunning(`The database does not respond. ${whatToDo(installation)}`)
    throw error
  } finally {
    await db.destroy()
  }
}

function whatToDo(installation: Installation): string {
  if (isFurtherHost(installation)) return 'It is on another machine: check it there.'
  return `Is Berth running? Start it with: ${mannerOf(installation).start}`
}
