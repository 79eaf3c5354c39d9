import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkout } from '../../installation/installation.ts'
import { ensurePythonPackages, type PythonPackages, pythonFolder } from '../../services/python-packages.ts'
import { MissingPart } from '../../services/system-packages.ts'
import type { Say } from '../../terminal/terminal.ts'
import { runsFilesOf } from '../wanted-files.ts'

/** Whether a test run needs OpenAI's client for Python. That for JavaScript is among our own packages. */
export const needsOpenAiClient = (files: readonly string[]): boolean =>
  ['ai-clients', 'long/ai'].some(own => runsFilesOf(files, own))

/** The client and what it imports, for Linux on x86_64 and aarch64, with a digest of each wheel. */
const python = (): PythonPackages => ({
  name: 'openai-client',
  what: "OpenAI's client for Python",
  packages: readFileSync(join(checkout, 'cli/test/clients/openai/requirements.txt'), 'utf8').trim().split('\n'),
  minorVersion: 11,
})

/** A Python that has the client. Throws MissingPart if it is missing. */
export function findOpenAiClient(): string {
  const program = join(pythonFolder(python()), 'bin/python')
  if (existsSync(program)) return program
  throw new MissingPart(
    "OpenAI's client for Python is missing. Install it with:  ./berth test test/ai-clients/python.test.ts",
  )
}

/** Installs OpenAI's client for Python in the cache, unless it is there. Rejects with MissingPart. */
export const ensureOpenAiClient = (say: Say): Promise<void> => ensurePythonPackages(python(), say)
