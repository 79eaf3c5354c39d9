import { imagesOnOffer } from '../../policy/databases/database-settings.ts'
import { engineNames } from '../../policy/databases/engine.ts'
import { engines } from '../../policy/databases/engines.ts'
import { mongoStandIn } from '../../policy/databases/mongo.ts'
import { runsFilesOf } from './wanted-files.ts'

/** The images of databases that tests use: those that can be built here, and the stand-in for MongoDB. */
export function databaseTestImages(): string[] {
  const others = engineNames.filter(name => name !== 'mongo').reverse()
  return [...imagesOnOffer({ engines: others, mongoStandIn: false }), ...engines.mongo.versions.map(mongoStandIn.image)]
}

/** Whether a test run needs images of databases: a whole run does, and one of which a file or folder is about databases. */
export const needsDatabaseImages = (files: readonly string[]): boolean => runsFilesOf(files, 'database')
