import type { TestApi, TestUser } from '../actors/api.ts'

/** What is stored because of an account and its uploads: what a refused body must not add to. */
export async function storedFor({ db, store }: TestApi, { id }: TestUser) {
  const count = async (table: string, where: object) => Number((await db(table).where(where).count())[0]!.count)
  return {
    files: await store.files(),
    objects: await count('objects', { owner_id: id }),
    /** Bodies that are stored, whatever refers to them: none may be without the sweep knowing. */
    segments: await count('segments', { state: 'stored' }),
    unreferenced: Number(
      (await db('segments').where({ state: 'stored', refs: 0 }).whereNull('zero_since').count())[0]!.count,
    ),
    slots: await count('blob_leases', { subject: `upload/${id}` }),
  }
}
