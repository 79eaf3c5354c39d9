import { installRules } from '../../policy/hosts/installs.ts'
import { registryFileNames, registryFor } from '../../policy/packages/project-files.ts'
import { packageManagers } from '../../policy/packages/registries.ts'
import type { ContainerSpec } from '../containers/port.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'
import type { Release } from '../releases/release.ts'
import { fileIn, namesIn } from '../releases/root-names.ts'

export interface PackageStep {
  language: Release['language']
  /** The folder that the step runs in. */
  folder: string
  spec: ContainerSpec
  add(text: string): Promise<void>
  signal: AbortSignal
}

type Outcome = Awaited<ReturnType<AppHostOptions['engine']['runToEnd']>>

const again =
  '[The packages could not be installed from the cache of the host. They are requested from the registry now.]\n'

/**
 * Runs an install step to its end, with the host's cache of packages where its sources name no registry. When it fails and the cache
 * may be why, it is tried once more without. Rejects as `runToEnd`.
 */
export async function runWithPackages({ engine, packages, warn }: AppHostOptions, step: PackageStep): Promise<Outcome> {
  const { language, spec, signal, add } = step
  const run = (one: ContainerSpec) => engine.runToEnd(one, add, signal)
  const registry = packages ? registryFor(language, await textsOf(step)) : null
  if (!packages || !registry || 'named' in registry) return run(spec)
  const use = await packages.use({ kind: registry.kind, engine, spec, signal })
  if (!use) return run(spec)
  const [shell = '', option = '', install = ''] = spec.command
  const command = [shell, option, use.install(install)]
  const outcome = await run({ ...spec, command, env: { ...spec.env, ...use.env } })
  const hadTrouble = await use.hadTrouble()
  if (outcome.exitCode === 0 || outcome.oom || !hadTrouble) return outcome
  await add(again)
  warn?.({ step: spec.name }, 'packages: a step failed with the cache, and is tried once more without it')
  const { anew } = packageManagers[registry.kind]
  return run({ ...spec, command: [shell, option, anew + install] })
}

async function textsOf({ language, folder }: PackageStep): Promise<Map<string, string | null>> {
  const texts = new Map<string, string | null>()
  for (const name of await namesIn(folder, registryFileNames(language)))
    texts.set(name, await fileIn(folder, name, installRules.inputBytes))
  return texts
}
