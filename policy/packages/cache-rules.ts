import { GiB, MiB } from '../../lib/bytes.ts'

/** How the packages of public registries are downloaded once per host (docs/decisions/package-downloads.md). */
export const packageCacheRules = {
  /** Part of the host's disk that the cache may use at most, whatever its setting says. */
  diskShare: 0.1,
  /** Free space on the disk that the cache leaves to everything else. */
  freeBytes: 2 * GiB,
  /** Max bytes of one document of a registry, such as the list of a package's versions. Steps get larger ones from the registry itself. */
  documentBytes: 16 * MiB,
  /** Max bytes of a list that is stored as it arrives, such as that of all versions of all gems: about 25 MB in 2026. */
  listBytes: 256 * MiB,
  /** Max bytes of one archive. Steps get larger ones from the registry itself. */
  archiveBytes: 512 * MiB,
  /** Max bytes and files of a zip archive that is unpacked in order to verify it; Go has the same limit of bytes. */
  zip: { outputBytes: 500 * MiB, files: 100_000 },
  /** Max files; each counts as whole blocks of the disk. */
  entries: 100_000,
  /** Max links of one document that lead to the cache; a document with more is passed on without a change. */
  links: 200_000,
  /** Max characters of a path that is requested. */
  pathLength: 2048,
  /** Redirects of a registry that are followed. */
  redirects: 5,
  /** Seconds until a connection, an answer's head, or the next bytes of it, must be there. */
  upstreamSeconds: { connect: 10, silent: 30 },
  /** Seconds for one archive, and for one document: with two waits for a slot that is less than a connection may be silent. */
  archiveSeconds: 600,
  documentSeconds: 20,
  /** After this many seconds a step gets an archive while it is still being downloaded. */
  followAfterSeconds: 5,
  /** Seconds after which a download ends that nothing waits for or reads any more. */
  abandonedSeconds: 5,
  /** A step that waits this long for a slot is sent to the registry itself. */
  slotSeconds: 10,
  /** The end of an archive that is passed on only once the whole archive is verified, in bytes. */
  heldBytes: 64 * 1024,
  /** Open connections of one container; more are closed. */
  connectionsPerContainer: 64,
  /** Seconds for which a connection may be silent, and for which an answer may take. */
  clientSeconds: { silent: 60, answer: 900 },
  /** Max registries that one host serves. */
  registries: 8,
  /** The first of the ports that are tried, and how many there are. Below the range from which systems choose ports. */
  ports: { first: 21_000, count: 4000 },
  /** The user of the process; the sequence of applications' users does not reach it. */
  uid: 1_999_999_999,
  /** Digests of archives that are remembered. */
  remembered: 50_000,
  /** How long an image is not queried again for its registry after it could not answer, in seconds. */
  queryAgainSeconds: 600,
  /** Seconds for an image to report which registry it uses, and for the process to answer. */
  querySeconds: 60,
  openSeconds: 10,
  /** Seconds until the process has looked at all files of its folder. */
  startSeconds: 120,
  /** Seconds for which steps do without it after it did not start. */
  restSeconds: 60,
  /** Lines of the log about failures of one kind, kinds that are distinguished, characters of a path in them, and lines of all kinds. */
  warnings: { perMinute: 5, kinds: 200, pathLength: 200, allPerMinute: 60 },
  /** Uses between two updates of an entry's time on the disk, in seconds. */
  touchSeconds: 60,
} as const

/** How many of a kind of work are done concurrently. One container has half of them at most, and there is always one for the next container. */
export const packageSlots = {
  /** Archives that are downloaded. npm requests 15 at a time. */
  downloads: { atOnce: 32, perSubject: 'spare' },
  /** Documents that are requested and rewritten. */
  documents: { atOnce: 16, perSubject: 'spare' },
  /** Files that are read in order to verify them. */
  reads: { atOnce: 16, perSubject: 'spare' },
} as const

/** Size of the cache of a host with this disk, in MB: `maxMb`, or less on a small disk. */
export const packageCacheMb = (diskMb: number, maxMb: number): number =>
  Math.min(maxMb, Math.floor(diskMb * packageCacheRules.diskShare))
