import { folderVolumes } from './folder.ts'
import { loopRefusal, loopVolumes } from './loop.ts'
import type { Volumes } from './port.ts'

export interface OpenedVolumes {
  volumes: Volumes
  /** Why sizes are only checked on this host, for the summary of `berth up`; null when they are enforced. */
  notice: string | null
}

/** The volumes of a host under `root`, with enforced sizes where the machine supports it and the setting allows it. */
export async function openVolumes(options: { root: string; quota: 'auto' | 'off' }): Promise<OpenedVolumes> {
  const folders = `${options.root}/folders`
  if (options.quota === 'off') return { volumes: folderVolumes(folders), notice: 'the setting HOST_QUOTA is off' }
  const refusal = await loopRefusal(options.root)
  if (refusal !== null) return { volumes: folderVolumes(folders), notice: refusal }
  return { volumes: loopVolumes(options.root), notice: null }
}
