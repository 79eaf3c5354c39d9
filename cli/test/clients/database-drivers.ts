import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkout } from '../../installation/installation.ts'
import { ensurePythonPackages, type PythonPackages, pythonFolder } from '../../services/python-packages.ts'
import { MissingPart } from '../../services/system-packages.ts'
import type { Say } from '../../terminal/terminal.ts'
import { runsFilesOf } from '../wanted-files.ts'

/** Whether a test run needs the database drivers of Python. */
export const needsDatabaseDrivers = (files: readonly string[]): boolean => runsFilesOf(files, 'databases/drivers')

/** The versions with which the examples of the documentation run. */
const python = (): PythonPackages => ({
  name: 'database-drivers',
  what: 'the database drivers of Python (psycopg, PyMySQL, redis-py, PyMongo)',
  packages: readFileSync(join(checkout, 'examples/databases/python/requirements.txt'), 'utf8').trim().split('\n'),
})

/** A Python that has the drivers. Throws MissingPart if it is missing. */
export function findDatabaseDrivers(): string {
  const program = join(pythonFolder(python()), 'bin/python')
  if (existsSync(program)) return program
  throw new MissingPart(
    'The database drivers of Python are missing. Install them with:  ./berth test test/platform/databases/drivers.test.ts',
  )
}

/** Installs the database drivers of Python in the cache, unless they are there. Rejects with MissingPart. */
export const ensureDatabaseDrivers = (say: Say): Promise<void> => ensurePythonPackages(python(), say)
