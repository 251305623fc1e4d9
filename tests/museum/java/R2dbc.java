// SPDX-License-Identifier: MIT
// Queries with a parameter, whose messages are written separately. Usage: R2dbc PORT OPERATIONS

import io.r2dbc.postgresql.PostgresqlConnectionConfiguration;
import io.r2dbc.postgresql.PostgresqlConnectionFactory;
import io.r2dbc.postgresql.api.PostgresqlConnection;
import java.io.IOException;

public final class R2dbc {
    public static void main(String[] arguments) throws IOException, ClassNotFoundException {
        PostgresqlConnection connection = new PostgresqlConnectionFactory(PostgresqlConnectionConfiguration.builder()
            .host("127.0.0.1").port(Integer.parseInt(arguments[0])).username("museum").database("postgres").build())
            .create().block();
        Rounds.measure(Integer.parseInt(arguments[1]), () -> connection.createStatement("SELECT $1::int").bind("$1", 1)
            .execute().flatMap(result -> result.map((row, metadata) -> row.get(0))).blockLast());
        connection.close().block();
    }
}
