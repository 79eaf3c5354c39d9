/** The installations that a data folder and the database belong to. */
export interface InstallationIds {
  /** Names for people. */
  folder: string
  database: string
  folderId: string | null
  databaseId: string | null
  /** Whether the folder contains volumes of applications. */
  folderHasApplications: boolean
  /** Whether the database has, or ever had, an application. */
  databaseKnowsApplications: boolean
}

/** Parts of different installations. Nothing may be started; the message says what to do. */
export class WrongInstallation extends Error {
  override name = 'WrongInstallation'
}

const move =
  'If this is a mistake, correct the setting and start again. To make the two belong together from now on: berth adopt --yes, or berth up --adopt where Berth runs its own Postgres (docs/decisions/one-installation.md).'

/** The installation that both belong to; null when a new id must be created. Throws `WrongInstallation`. */
export function commonInstallation(parts: InstallationIds): string | null {
  const { folder, database, folderId, databaseId, folderHasApplications, databaseKnowsApplications } = parts
  if (folderId !== null && folderId !== databaseId)
    throw new WrongInstallation(
      `The data folder ${folder} belongs to installation ${folderId}, and the database ${database} ${
        databaseId === null ? 'to none yet' : `to installation ${databaseId}`
      }. ${move}`,
    )
  if (folderId === null && folderHasApplications && !databaseKnowsApplications)
    throw new WrongInstallation(
      `The data folder ${folder} contains applications, and the database ${database} has none: it is the wrong database, or empty. ${move}`,
    )
  return databaseId
}

/** Throws `WrongInstallation` unless the object store carries this id, or may get it: it carries none, and this installation never marked a store. */
export function assertStoreBelongs(store: { storeId: string | null; given: boolean }, databaseId: string): void {
  const { storeId, given } = store
  if (storeId !== null && storeId !== databaseId)
    throw new WrongInstallation(
      `The object store belongs to installation ${storeId}, and the database to installation ${databaseId}: OBJECT_STORE and its further settings must be those of the installation, and each installation needs its own bucket or folder. ${move}`,
    )
  if (storeId === null && given)
    throw new WrongInstallation(
      `The object store does not carry the mark of installation ${databaseId}: it belongs to another installation (check OBJECT_STORE and its further settings; hosts need the same ones), or it was emptied. ${move}`,
    )
}

/** The name of the database in a URL, without user and password. */
export function databaseName(url: string): string {
  if (!URL.canParse(url)) return 'of DATABASE_URL'
  const { host, pathname } = new URL(url)
  return `${decodeURIComponent(pathname.slice(1)) || 'without a name'} at ${host}`
}
