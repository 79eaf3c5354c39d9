import { databaseSeconds } from '../../../../policy/databases/database-steps.ts'
import { type DatabaseContents, DumpCorrupt, dumpPlace, type EngineJob } from '../../contents.ts'
import { type DumpFile, readDump, writeDump } from '../../dump-files.ts'
import { places } from '../../port.ts'
import { databasesOf } from './contents/definitions.ts'
import { readContents } from './contents/digest.ts'
import { scriptWriter } from './contents/script.ts'
import { createUsers, grantUsers, type User } from './contents/users.ts'
import { mysqlSession, named } from './mysql-session.ts'
import { platformUsers, socketFile } from './mysql-settings.ts'

const scriptFile = 'contents.sql'
const usersFile = 'users.json'
/** Views that read what is no more. Nothing loads them; their owner may want to. */
const unusableFile = 'unusable-views.json'
const { copy: copySeconds } = databaseSeconds

/** The client obeys nothing in a script but statements and delimiters. */
const client = [
  ...['mysql', '--no-defaults', '--binary-mode', '--commands=OFF', '--default-character-set=utf8mb4'],
  ...['--max-allowed-packet=1G', `--socket=${places.run}/${socketFile}`, `--user=${platformUsers.engine}`],
].join(' ')

export const mysqlContents: DatabaseContents = {
  dump: (engine, job) =>
    writeDump(job, engine.signal, writer =>
      mysqlSession(engine, copySeconds, async session => {
        const read = (file: DumpFile) => readContents(session, scriptWriter(session, file))
        const { users, unusable, digest } = await writer.write(scriptFile, read)
        await writer.write(usersFile, file => file.add(`${JSON.stringify(users, null, 2)}\n`))
        const views = unusable.map(({ database, name, statement }) => ({ database, name, statement: `${statement}` }))
        await writer.write(unusableFile, file => file.add(`${JSON.stringify(views, null, 2)}\n`))
        await writer.finish()
        return digest()
      }),
    ),

  async loadBeforeStart() {},

  async load(engine, job) {
    const users = await usersOfDump(job.folder, engine.signal)
    await mysqlSession(engine, copySeconds, async session => {
      // Events of the customer would change the copy; it starts again with the settings of its file.
      await session.rows('SET GLOBAL event_scheduler = OFF')
      await session.rows('SET GLOBAL max_allowed_packet = 1073741824')
      await session.rows('SET foreign_key_checks = 0')
      for (const database of await databasesOf(session)) await session.rows(`DROP DATABASE ${named(database)}`)
      await createUsers(session, users)
    })
    await runScript(job)
    await mysqlSession(engine, copySeconds, session => grantUsers(session, users))
  },

  digest: engine =>
    mysqlSession(engine, copySeconds, async session => {
      const { digest } = await readContents(session)
      return digest()
    }),
}

async function usersOfDump(folder: string, signal?: AbortSignal): Promise<User[]> {
  return readDump(folder, signal, reader => {
    if (!reader.paths.includes(scriptFile) || !reader.paths.includes(usersFile))
      throw new DumpCorrupt('The dump is not one of MySQL.')
    return JSON.parse(reader.text(usersFile))
  })
}

/** Errors of a server that lacks room or memory, or is being ended, and not of a statement. */
const circumstances = new Set([3, 5, 1021, 1026, 1030, 1037, 1038, 1040, 1041, 1053, 1114, 1135, 1180, 1206, 3675])

async function runScript(job: EngineJob): Promise<void> {
  try {
    await job.run(['sh', '-c', `exec ${client} < ${dumpPlace}/${scriptFile}`])
  } catch (error) {
    const [, code, line] = /ERROR (\d+) \([0-9A-Z]{5}\) at line (\d+)/.exec((error as Error).message) ?? []
    const number = Number(code ?? 0)
    // From 2000 to 2999: of the connection.
    if (number === 0 || (number >= 2000 && number < 3000) || circumstances.has(number)) throw error
    throw new DumpCorrupt(`MySQL refuses the statement of the dump at line ${line} with error ${number}.`, {
      cause: error,
    })
  }
}
