import type { Db } from '../database.ts'

/** What a host has of the images of databases, by name: `ready`, or why not and what to do. One that is missing is being prepared. */
export type DatabaseImages = Readonly<Record<string, string>>

/** Replaces what is recorded of this host's images. */
export async function recordDatabaseImages(db: Db, hostId: string, images: DatabaseImages): Promise<void> {
  await db('hosts')
    .where({ id: hostId })
    .update({ database_images: JSON.stringify(images) })
}

/** What is recorded of this host's images; empty for a host that is not registered. */
export async function readDatabaseImages(db: Db, hostId: string): Promise<DatabaseImages> {
  const row = await db('hosts').where({ id: hostId }).first('database_images')
  return row?.database_images ?? {}
}

/** Replaces the ids of this host's images, by name. */
export async function recordDatabaseImageIds(db: Db, hostId: string, ids: DatabaseImages): Promise<void> {
  await db('hosts')
    .where({ id: hostId })
    .update({ database_image_ids: JSON.stringify(ids) })
}

/** Ids of the images that databases, of any host, are to be started with. */
export async function imagesOfDatabases(db: Db): Promise<string[]> {
  const rows = await db('databases').whereNotNull('image_id').distinct('image_id')
  return rows.map(({ image_id }) => image_id)
}
