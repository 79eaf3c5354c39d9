import { MiB } from '../../lib/bytes.ts'
import type { BuildFact } from '../hosts/build-settings.ts'
import { shortWords } from '../hosts/installs.ts'

/** What a host's cache of packages holds, and what it has done since its process started; null while it does not run. */
export type PackageCacheState =
  | { bytes: number; entries: number; hits: number; downloads: number; passedOn: number }
  | 'silent'
  | null

/** The state of a host's cache of packages, for people. `fault` is why the last step could not use it. */
export function packageCacheFact(maxMb: number, state: PackageCacheState, fault: string | null = null): BuildFact {
  if (maxMb === 0) return { state: 'no cache: PACKAGE_CACHE_MB is 0', remedy: null }
  const limit = `a cache of up to ${maxMb} MB`
  const remedy = "look for 'packages:' in the log of the host, or set PACKAGE_CACHE_MB=0"
  if (fault !== null) return { state: `${limit}, WHICH BUILDS CANNOT USE: ${shortWords(fault)}`, remedy }
  if (state === null) return { state: `${limit}, which no build has used since the start of the host`, remedy: null }
  if (state === 'silent') return { state: `${limit}, WHICH DOES NOT ANSWER: builds use the registries`, remedy }
  const { bytes, entries, hits, downloads, passedOn } = state
  const since = `since its start ${hits} archives were in it, ${downloads} were downloaded, and ${passedOn} requests went to the registry`
  return { state: `${limit} with ${entries} files in ${Math.ceil(bytes / MiB)} MB; ${since}`, remedy: null }
}
