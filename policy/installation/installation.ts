/** What a data folder and the database say of the installation they belong to. */
export interface Belonging {
  /** As a person knows them. */
  folder: string
  database: string
  folderId: string | null
  databaseId: string | null
  /** Whether there are volumes of applications in the folder. */
  folderHasApplications: boolean
  /** Whether the database knows an application, or knew one. */
  databaseKnowsApplications: boolean
}

/** Parts that do not belong together. Nothing may be started; the message says what to do. */
export class WrongInstallation extends Error {
  override name = 'WrongInstallation'
}

const move =
  'If this is a mistake, put the setting right and start again. If the two shall belong together from now on: berth adopt --yes, or berth up --adopt where Berth runs its own Postgres (docs/decisions/one-installation.md).'

/** The id that both belong to; null when a new one is to be made. Throws `WrongInstallation`. */
export function belongTogether(parts: Belonging): string | null {
  const { folder, database, folderId, databaseId, folderHasApplications, databaseKnowsApplications } = parts
  if (folderId !== null && folderId !== databaseId)
    throw new WrongInstallation(
      `The data folder ${folder} belongs to installation ${folderId}, and the database ${database} ${
        databaseId === null ? 'to none yet' : `to installation ${databaseId}`
      }. ${move}`,
    )
  if (folderId === null && folderHasApplications && !databaseKnowsApplications)
    throw new WrongInstallation(
      `The data folder ${folder} holds applications, and the database ${database} knows none: it is another one, or empty. ${move}`,
    )
  return databaseId
}

/** Throws `WrongInstallation` unless the object store carries this id, or may be given it: it carries none, and none was ever given. */
export function storeBelongs(store: { storeId: string | null; given: boolean }, databaseId: string): void {
  const { storeId, given } = store
  if (storeId !== null && storeId !== databaseId)
    throw new WrongInstallation(
      `The object store belongs to installation ${storeId}, and the database to installation ${databaseId}: OBJECT_STORE and what follows it must be the installation's, and each installation needs a bucket or folder of its own. ${move}`,
    )
  if (storeId === null && given)
    throw new WrongInstallation(
      `The object store does not carry the mark of installation ${databaseId}: it is not the installation's (OBJECT_STORE and what follows it; a host needs the same), or it was emptied. ${move}`,
    )
}

/** The database of an address, without user and password. */
export function databaseName(url: string): string {
  if (!URL.canParse(url)) return 'of DATABASE_URL'
  const { host, pathname } = new URL(url)
  return `${decodeURIComponent(pathname.slice(1)) || 'without a name'} at ${host}`
}
