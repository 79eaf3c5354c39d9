import { MongoClient } from 'mongodb'

const client = new MongoClient(process.env.MONGO_URL, {
  ca: Buffer.from(process.env.MONGO_CERTIFICATE, 'base64').toString(),
})
const visits = client.db('default').collection('visits')

export async function countVisit() {
  await visits.insertOne({ at: new Date() })
  return visits.countDocuments()
}

export const close = () => client.close()
