import { GiB, MiB } from '../../lib/bytes.ts'
import { hourMs } from '../../lib/time.ts'

/** How the results of install steps are used again (docs/decisions/install-cache.md). */
export const installRules = {
  /** Another number makes all results of earlier versions of Berth unusable. */
  scheme: 1,
  /** Max bytes of one file that an install step depends on; larger ones are not looked into, and the result is not used again. */
  inputBytes: 4 * MiB,
  /** Max bytes of all of them: they are in the memory of the host's process. */
  allInputBytes: 32 * MiB,
  /** Max archives of packages in an application that are such files, and max characters of the path of one. */
  archives: 50,
  archivePath: 1000,
  /** How long a result is used again that depends on the time, because not every version is pinned. */
  unpinnedHours: 24,
  /** Seconds for the digest of an installed folder; after that it is installed again. */
  digestSeconds: 120,
  /** Seconds for storing a result, or for unpacking one; after that it is not stored, or installed again. */
  copySeconds: 300,
  /** Seconds that a digest or an archive waits for a slot; after that it is as if it could not be read. */
  slotSeconds: 120,
  /** Stored results that were not used for this long are removed. */
  unusedDays: 30,
  /** Part of the host's disk that the cache may use at most, whatever its setting says. */
  diskShare: 0.1,
  /** Part of the host's cache that one account may use. */
  accountShare: 0.25,
  /** Max archives of a host; each counts as whole blocks of the disk. */
  entries: 10_000,
  /** A result whose files exceed the share of an account this many times is not packed: the archive would hardly fit. */
  packedShares: 8,
  /** Free space on the disk that the cache leaves to everything else. */
  freeBytes: 2 * GiB,
  /** Max characters of the words that say where dependencies come from. */
  wordsLength: 300,
} as const

/** How the tools' cache of a compiled language is carried from one build of an application to the next. */
export const toolRules = {
  /** Another number makes all caches of earlier versions of Berth unusable. */
  scheme: 1,
  /** Max size of the folders; larger ones are not stored. They lie in the memory of the build container, or on the application's disk. */
  folderBytes: 512 * MiB,
  /** Max files in them: each takes time to unpack. */
  files: 100_000,
  /** A cache that has grown by less than this since it was unpacked is not packed again. */
  growth: 0.1,
} as const

/** How many children of a host, and of one account, pack results concurrently, how many make digests or unpack, and how many results wait to be packed. */
export const installConcurrency = {
  waiting: 32,
  packing: { atOnce: 1, perSubject: 1 },
  reading: { atOnce: 2, perSubject: 1 },
}

/** These words, cut to `wordsLength`. */
export const shortWords = (words: string): string =>
  words.length > installRules.wordsLength ? `${words.slice(0, installRules.wordsLength - 1)}…` : words

/** What an operator reads where a step serves its own release only. */
export const notForReuse = (because: string): string => `installed, and not for reuse: ${because}`

/** Whether a result may still be used; times in ms since 1970. One from the future counts as too old. */
export function isFresh(installedAt: number, isPinned: boolean, now: number): boolean {
  const age = now - installedAt
  return isPinned || (age >= 0 && age < installRules.unpinnedHours * hourMs)
}

/**
 * Everything that a result depends on, by name: the account, the image, the command, each file, and so on. Its values are short, such as
 * digests.
 */
export type InstallFacts = Readonly<Record<string, string>>

/** The name of the fact that is the digest of a file. */
export const fileFact = (name: string): string => `file ${name}`

const named: Readonly<Record<string, string>> = {
  scheme: 'the version of Berth',
  account: 'the account',
  image: 'the image',
  architecture: "the machine's architecture",
  runtime: 'the version of the language',
  command: 'the install command',
  environment: 'the environment of install steps',
  certificates: 'the certificates that install steps trust',
}

/** What differs between the facts of two results, in words. */
export function changedFacts(before: InstallFacts, after: InstallFacts): string[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  return names
    .filter(name => before[name] !== after[name])
    .map(name => named[name] ?? name.replace(/^file /, ''))
    .sort()
}

/** Whether all facts are equal that files of the project do not decide; lock files choose the command too. */
export const isSameApartFromFiles = (before: InstallFacts, after: InstallFacts): boolean =>
  Object.keys(named).every(name => name === 'command' || before[name] === after[name])

/** Size of the cache of a host with this disk, in MB: `maxMb`, or less on a small disk. */
export const installCacheMb = (diskMb: number, maxMb: number): number =>
  Math.min(maxMb, Math.floor(diskMb * installRules.diskShare))
